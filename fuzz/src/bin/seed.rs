//! Writes the first corpus of every target into `corpus/`: see `kseg_fuzz::seeds`.

use std::fs;
use std::io::Result;
use std::path::Path;

use kseg_fuzz::seeds::Seeds;

fn main() -> Result<()> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = fuzz.parent().unwrap_or(fuzz);
    for (target, seeds) in Seeds::collect(root).iter() {
        let folder = fuzz.join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        for (index, seed) in seeds.iter().enumerate() {
            fs::write(folder.join(format!("seed-{index:03}")), seed)?;
        }
        println!("{target}: {} seeds", seeds.len());
    }
    Ok(())
}
