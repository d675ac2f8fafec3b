//! The slots of a [`super::java_hash_map::JavaHashMap`] and its long buckets as red-black trees.
//!
//! A tree bucket is at once a chain, which gives the iteration order, and a tree by (hash, key),
//! which gives the lookup. The chain reacts to the tree: a new entry goes behind its tree parent,
//! and after an insertion the tree's root is moved to the front (`HashMap.TreeNode`). So the shape
//! of the tree matters, and balancing follows the textbook algorithm (Cormen et al.) that Java
//! uses.

use super::java_hash_map::hash;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: i64,
    next: u32,
}

/// What a slot needs beside [`Node`] while its bucket is a tree.
#[derive(Clone, Copy, Debug)]
struct Links {
    parent: u32,
    left: u32,
    right: u32,
    prev: u32,
    red: bool,
}

/// Also what reading [`NONE`] gives: a missing child is black and has no neighbours.
const NO_LINKS: Links = Links {
    parent: NONE,
    left: NONE,
    right: NONE,
    prev: NONE,
    red: false,
};

/// One half of a bucket that was split.
#[derive(Clone, Copy)]
pub(crate) struct Half {
    pub(crate) first: u32,
    pub(crate) count: usize,
    last: u32,
}

/// The slots of a map, without the values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    /// Empty until the first tree is made, which in most logs is never.
    links: Vec<Links>,
}

impl Nodes {
    pub(crate) fn reserve(&mut self, additional: usize) {
        self.nodes.reserve(additional);
    }

    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.links.clear();
    }

    pub(crate) fn push(&mut self, key: i64) -> u32 {
        // Two billion producers do not fit into memory, so the number always fits.
        let slot = u32::try_from(self.nodes.len()).unwrap_or(NONE);
        self.nodes.push(Node { key, next: NONE });
        slot
    }

    pub(crate) fn reuse(&mut self, slot: u32, key: i64) {
        if let Some(node) = self.nodes.get_mut(slot as usize) {
            *node = Node { key, next: NONE };
        }
    }

    #[inline]
    pub(crate) fn key(&self, slot: u32) -> i64 {
        self.nodes.get(slot as usize).map_or(0, |node| node.key)
    }

    #[inline]
    pub(crate) fn next(&self, slot: u32) -> u32 {
        self.nodes.get(slot as usize).map_or(NONE, |node| node.next)
    }

    pub(crate) fn set_next(&mut self, slot: u32, next: u32) {
        if let Some(node) = self.nodes.get_mut(slot as usize) {
            node.next = next;
        }
    }

    /// The slots from `first` on.
    pub(crate) fn chain(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(first).filter(|&slot| slot != NONE), |&slot| {
            Some(self.next(slot)).filter(|&next| next != NONE)
        })
    }

    pub(crate) fn chain_len(&self, first: u32) -> usize {
        self.chain(first).count()
    }

    /// Parts a chain in two that keep its order: keys that are `low` and the others.
    pub(crate) fn split(&mut self, first: u32, low: impl Fn(i64) -> bool) -> (Half, Half) {
        let empty = Half {
            first: NONE,
            count: 0,
            last: NONE,
        };
        let mut halves = (empty, empty);
        let mut slot = first;
        while slot != NONE {
            let next = self.next(slot);
            let half = if low(self.key(slot)) {
                &mut halves.0
            } else {
                &mut halves.1
            };
            if half.count == 0 {
                half.first = slot;
            } else {
                self.set_next(half.last, slot);
            }
            self.set_prev(slot, half.last);
            half.last = slot;
            half.count += 1;
            slot = next;
        }
        self.set_next(halves.0.last, NONE);
        self.set_next(halves.1.last, NONE);
        halves
    }

    #[inline]
    fn links(&self, slot: u32) -> Links {
        self.links.get(slot as usize).copied().unwrap_or(NO_LINKS)
    }

    /// Changes the links of a slot; does nothing for [`NONE`], and before the first tree.
    #[inline]
    fn change(&mut self, slot: u32, change: impl FnOnce(&mut Links)) {
        if let Some(links) = self.links.get_mut(slot as usize) {
            change(links);
        }
    }

    fn set_prev(&mut self, slot: u32, prev: u32) {
        self.change(slot, |links| links.prev = prev);
    }

    fn make_room_for_links(&mut self) {
        if self.links.len() < self.nodes.len() {
            self.links.resize(self.nodes.len(), NO_LINKS);
        }
    }

    /// The tree is ordered by hash, then by key, both signed.
    fn is_before(&self, slot: u32, other: u32) -> bool {
        let (key, other) = (self.key(slot), self.key(other));
        (hash(key), key) < (hash(other), other)
    }

    fn root(&self, mut slot: u32) -> u32 {
        loop {
            let parent = self.links(slot).parent;
            if parent == NONE {
                return slot;
            }
            slot = parent;
        }
    }

    /// The slot of `key` in the tree whose chain begins with `first`.
    pub(crate) fn tree_find(&self, first: u32, hash_of_key: i32, key: i64) -> Option<u32> {
        let mut slot = self.root(first);
        while slot != NONE {
            let found = self.key(slot);
            if found == key {
                return Some(slot);
            }
            let links = self.links(slot);
            slot = if (hash_of_key, key) < (hash(found), found) {
                links.left
            } else {
                links.right
            };
        }
        None
    }

    /// Makes a tree of a chain by inserting in its order; returns the new first slot, the root
    /// (`TreeNode.treeify`).
    pub(crate) fn treeify(&mut self, first: u32) -> u32 {
        self.make_room_for_links();
        let mut root = NONE;
        let mut prev = NONE;
        let mut slot = first;
        while slot != NONE {
            self.change(slot, |links| *links = Links { prev, ..NO_LINKS });
            if root == NONE {
                root = slot;
            } else {
                let parent = self.leaf_above(root, slot);
                root = self.attach(root, parent, slot);
            }
            prev = slot;
            slot = self.next(slot);
        }
        self.move_root_to_front(first, root)
    }

    /// Adds a slot to the tree whose chain begins with `first`; returns the new first slot
    /// (`TreeNode.putTreeVal`).
    pub(crate) fn tree_insert(&mut self, first: u32, slot: u32) -> u32 {
        self.make_room_for_links();
        let root = self.root(first);
        let parent = self.leaf_above(root, slot);
        let after = self.next(parent);
        self.set_next(slot, after);
        self.set_prev(after, slot);
        self.set_next(parent, slot);
        self.change(slot, |links| {
            *links = Links {
                prev: parent,
                ..NO_LINKS
            };
        });
        let root = self.attach(root, parent, slot);
        self.move_root_to_front(first, root)
    }

    /// Takes a slot out of the tree whose chain begins with `first`; returns the new first slot.
    ///
    /// As through an iterator: the root is not moved to the front, and a small tree stays one
    /// (`TreeNode.removeTreeNode`, not movable).
    pub(crate) fn tree_remove(&mut self, first: u32, slot: u32) -> u32 {
        let root = self.root(first);
        let after = self.next(slot);
        let before = self.links(slot).prev;
        self.set_next(before, after);
        self.set_prev(after, before);
        self.detach(root, slot);
        if before == NONE { after } else { first }
    }

    /// The slot below which a new one belongs.
    fn leaf_above(&self, root: u32, slot: u32) -> u32 {
        let mut parent = root;
        loop {
            let child = self.child(parent, self.is_before(slot, parent));
            if child == NONE {
                return parent;
            }
            parent = child;
        }
    }

    fn move_root_to_front(&mut self, first: u32, root: u32) -> u32 {
        if root == first {
            return first;
        }
        let after = self.next(root);
        let before = self.links(root).prev;
        self.set_prev(after, before);
        self.set_next(before, after);
        self.set_prev(first, root);
        self.set_next(root, first);
        self.set_prev(root, NONE);
        root
    }

    fn child(&self, slot: u32, left: bool) -> u32 {
        let links = self.links(slot);
        if left { links.left } else { links.right }
    }

    fn set_child(&mut self, slot: u32, left: bool, child: u32) {
        self.change(slot, |links| {
            if left {
                links.left = child;
            } else {
                links.right = child;
            }
        });
        self.set_parent(child, slot);
    }

    fn set_parent(&mut self, slot: u32, parent: u32) {
        self.change(slot, |links| links.parent = parent);
    }

    fn is_red(&self, slot: u32) -> bool {
        self.links(slot).red
    }

    fn set_red(&mut self, slot: u32, red: bool) {
        self.change(slot, |links| links.red = red);
    }

    fn is_left(&self, slot: u32) -> bool {
        self.links(self.links(slot).parent).left == slot
    }

    /// Puts `new` where `old` hangs; returns the root.
    fn replace(&mut self, root: u32, old: u32, new: u32) -> u32 {
        let parent = self.links(old).parent;
        if parent == NONE {
            self.set_parent(new, NONE);
            return new;
        }
        let left = self.is_left(old);
        self.set_child(parent, left, new);
        root
    }

    /// Turns `slot` down to the left or the right, its other child up; returns the root.
    fn rotate(&mut self, root: u32, slot: u32, left: bool) -> u32 {
        let up = self.child(slot, !left);
        if slot == NONE || up == NONE {
            return root;
        }
        let inner = self.child(up, left);
        let root = self.replace(root, slot, up);
        self.set_child(slot, !left, inner);
        self.set_child(up, left, slot);
        root
    }

    /// Hangs a slot below `parent` and balances; returns the root.
    fn attach(&mut self, mut root: u32, parent: u32, slot: u32) -> u32 {
        let left = self.is_before(slot, parent);
        self.set_child(parent, left, slot);
        self.set_red(slot, true);
        let mut slot = slot;
        loop {
            let mut parent = self.links(slot).parent;
            if parent == NONE || !self.is_red(parent) {
                break;
            }
            let grandparent = self.links(parent).parent;
            let side = self.is_left(parent);
            let uncle = self.child(grandparent, !side);
            if self.is_red(uncle) {
                self.set_red(uncle, false);
                self.set_red(parent, false);
                self.set_red(grandparent, true);
                slot = grandparent;
                continue;
            }
            if self.is_left(slot) != side {
                slot = parent;
                root = self.rotate(root, slot, side);
                parent = self.links(slot).parent;
            }
            self.set_red(parent, false);
            self.set_red(grandparent, true);
            root = self.rotate(root, grandparent, !side);
        }
        self.set_red(root, false);
        root
    }

    /// Takes a slot out of the tree, not out of the chain, and balances.
    fn detach(&mut self, mut root: u32, slot: u32) {
        let links = self.links(slot);
        if links.left != NONE && links.right != NONE {
            root = self.swap_with_successor(root, slot);
        }
        let links = self.links(slot);
        let child = if links.left == NONE {
            links.right
        } else {
            links.left
        };
        if child != NONE {
            root = self.replace(root, slot, child);
            if links.parent == NONE {
                self.set_red(child, false);
            } else if !links.red {
                self.balance_deletion(root, child);
            }
            return;
        }
        // A leaf is balanced around while it still hangs there.
        if !links.red {
            root = self.balance_deletion(root, slot);
        }
        self.replace(root, slot, NONE);
    }

    /// Lets a slot with two children and the next larger slot change places and colours.
    fn swap_with_successor(&mut self, root: u32, slot: u32) -> u32 {
        let mut successor = self.links(slot).right;
        while self.links(successor).left != NONE {
            successor = self.links(successor).left;
        }
        let (of_slot, of_successor) = (self.links(slot), self.links(successor));
        let root = self.replace(root, slot, successor);
        if of_slot.right == successor {
            self.set_child(successor, false, slot);
        } else {
            self.set_child(successor, false, of_slot.right);
            self.set_child(of_successor.parent, true, slot);
        }
        self.set_child(successor, true, of_slot.left);
        self.set_child(slot, true, NONE);
        self.set_child(slot, false, of_successor.right);
        self.set_red(successor, of_slot.red);
        self.set_red(slot, of_successor.red);
        root
    }

    /// Makes up for a black slot missing on the way to `slot`; returns the root.
    fn balance_deletion(&mut self, mut root: u32, mut slot: u32) -> u32 {
        while slot != root && !self.is_red(slot) {
            let parent = self.links(slot).parent;
            let side = self.is_left(slot);
            let mut sibling = self.child(parent, !side);
            if self.is_red(sibling) {
                self.set_red(sibling, false);
                self.set_red(parent, true);
                root = self.rotate(root, parent, side);
                sibling = self.child(parent, !side);
            }
            let near = self.child(sibling, side);
            let far = self.child(sibling, !side);
            if !self.is_red(near) && !self.is_red(far) {
                self.set_red(sibling, true);
                slot = parent;
                continue;
            }
            if !self.is_red(far) {
                self.set_red(near, false);
                self.set_red(sibling, true);
                root = self.rotate(root, sibling, !side);
                sibling = self.child(parent, !side);
            }
            let parent_is_red = self.is_red(parent);
            self.set_red(sibling, parent_is_red);
            let far = self.child(sibling, !side);
            self.set_red(far, false);
            self.set_red(parent, false);
            root = self.rotate(root, parent, side);
            slot = root;
        }
        self.set_red(slot, false);
        root
    }
}
