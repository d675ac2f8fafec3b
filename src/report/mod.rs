//! One module per question: folds a partition into rows that serialise.
