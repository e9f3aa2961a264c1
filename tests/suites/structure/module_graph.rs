//! Dependencies between the modules of one crate, read from its sources.
//!
//! A module depends on the module that owns a name it uses: re-exports are followed. What a module uses of the modules that
//! contain it is no dependency, because they are one concept in several files; test modules have none at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::Path,
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Ident, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemUse, Macro, UseTree,
    visit::{self, Visit},
};

/// Names from a crate's root to a module; empty for the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ModulePath(pub(crate) Vec<String>);

impl fmt::Display for ModulePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => f.write_str("crate"),
            false => f.write_str(&self.0.join("::")),
        }
    }
}

impl ModulePath {
    fn child(&self, name: &str) -> Self {
        let mut names = self.0.clone();
        names.push(name.to_owned());
        Self(names)
    }

    fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

pub(crate) type Dependencies = BTreeMap<ModulePath, BTreeSet<ModulePath>>;

/// Dependencies of all modules of the crate with this root file, such as `src/lib.rs`.
pub(crate) fn dependencies(root: &Path) -> Dependencies {
    let mut sources = Sources::default();
    sources.load(ModulePath::default(), root, root.parent().unwrap());
    let of_module = |(path, source): (&ModulePath, &Source)| {
        let owners = source.paths.iter();
        let owners = owners.filter_map(|names| sources.owner(path, names, 0));
        let owners = owners.filter(|owner| !owner.contains(path));
        (path.clone(), owners.collect())
    };
    sources.0.iter().map(of_module).collect()
}

/// Modules that depend on one another in a circle, each circle once.
pub(crate) fn circles(dependencies: &Dependencies) -> Vec<BTreeSet<ModulePath>> {
    let reachable: Dependencies = dependencies
        .keys()
        .map(|module| (module.clone(), reachable_from(module, dependencies)))
        .collect();
    let circle_of = |module: &ModulePath| -> BTreeSet<ModulePath> {
        let others = reachable[module].iter();
        others
            .filter(|other| reachable[*other].contains(module))
            .cloned()
            .collect()
    };
    let circles: BTreeSet<_> = dependencies.keys().map(circle_of).collect();
    circles
        .into_iter()
        .filter(|circle| circle.len() > 1)
        .collect()
}

fn reachable_from(module: &ModulePath, dependencies: &Dependencies) -> BTreeSet<ModulePath> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![module];
    while let Some(module) = waiting.pop() {
        for next in &dependencies[module] {
            if reached.insert(next.clone()) {
                waiting.push(next);
            }
        }
    }
    reached
}

/// A module's source: the names that its `use` items bring in, and all paths that it names.
#[derive(Default)]
struct Source {
    names: BTreeMap<String, Vec<String>>,
    paths: BTreeSet<Vec<String>>,
    children: Vec<String>,
    /// Number of inline modules around the item that is visited.
    depth: usize,
}

#[derive(Default)]
struct Sources(BTreeMap<ModulePath, Source>);

impl Sources {
    /// Loads the module of `file`, and its children from files in `folder`.
    fn load(&mut self, module: ModulePath, file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).unwrap();
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut source = Source::default();
        source.visit_file(&parsed);
        for child in &source.children {
            let beside = folder.join(format!("{child}.rs"));
            let inside = folder.join(child).join("mod.rs");
            let files = [beside, inside];
            if let Some(file) = files.iter().find(|file| file.exists()) {
                self.load(module.child(child), file, &folder.join(child));
            }
        }
        self.0.insert(module, source);
    }

    /// The module of this crate that owns a path named in `module`; `None` for paths of other crates.
    fn owner(&self, module: &ModulePath, names: &[String], depth: usize) -> Option<ModulePath> {
        // Longer chains of re-exports are circles.
        const REEXPORTS_MAX: usize = 16;
        if depth == REEXPORTS_MAX {
            return None;
        }
        let first = names.first()?;
        let mut owner = module.clone();
        let mut rest = names;
        match first.as_str() {
            "crate" => {
                owner = ModulePath::default();
                rest = &names[1..];
            }
            "self" => rest = &names[1..],
            "super" => {}
            name if self.0.contains_key(&module.child(name)) => {}
            name if self.0[module].names.contains_key(name) => {}
            _ => return None,
        }
        while let Some(name) = rest.first() {
            if name == "super" {
                owner.0.pop();
            } else if self.0.contains_key(&owner.child(name)) {
                owner = owner.child(name);
            } else {
                let Some(imported) = self.0.get(&owner)?.names.get(name) else {
                    return Some(owner);
                };
                let through = [imported, &rest[1..]].concat();
                // A re-exported name of another crate belongs to this module.
                return self.owner(&owner, &through, depth + 1).or(Some(owner));
            }
            rest = &rest[1..];
        }
        Some(owner)
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<Ident>()
                .is_ok_and(|condition| condition == "test")
    })
}

impl Source {
    fn add_path(&mut self, mut names: Vec<String>) {
        // `super` in an inline module leads to the file's own module first.
        let supers = names.iter().take_while(|name| *name == "super").count();
        names.drain(..supers.min(self.depth));
        if supers > 0 && supers <= self.depth {
            names.insert(0, "self".to_owned());
        }
        self.paths.insert(names);
    }

    fn add_use(&mut self, prefix: &[String], tree: &UseTree) {
        let with = |ident: &Ident| [prefix, &[ident.to_string()]].concat();
        let (path, name) = match tree {
            UseTree::Path(path) => return self.add_use(&with(&path.ident), &path.tree),
            UseTree::Group(group) => {
                return group
                    .items
                    .iter()
                    .for_each(|tree| self.add_use(prefix, tree));
            }
            UseTree::Glob(_) => return self.add_path(prefix.to_vec()),
            UseTree::Name(name) if name.ident == "self" => {
                (prefix.to_vec(), prefix.last().cloned().unwrap_or_default())
            }
            UseTree::Name(name) => (with(&name.ident), name.ident.to_string()),
            UseTree::Rename(rename) => (with(&rename.ident), rename.rename.to_string()),
        };
        self.add_path(path.clone());
        // A name that is imported as itself, such as a crate's, leads nowhere.
        if self.depth == 0 && path != [name.clone()] {
            self.names.insert(name, path);
        }
    }

    /// Adds the paths in a macro's input, which is no syntax tree.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut names: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 => names.push(ident.to_string()),
                TokenTree::Ident(ident) => {
                    self.end_path(&mut names);
                    names.push(ident.to_string());
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.end_path(&mut names);
                    self.add_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.end_path(&mut names),
            }
            colons = 0;
        }
        self.end_path(&mut names);
    }

    fn end_path(&mut self, names: &mut Vec<String>) {
        if names.len() > 1 {
            self.add_path(names.clone());
        }
        names.clear();
    }
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if is_test(&item.attrs) {
            return;
        }
        if item.content.is_some() {
            self.depth += 1;
            visit::visit_item_mod(self, item);
            self.depth -= 1;
        } else {
            self.children.push(item.ident.to_string());
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() && !is_test(&item.attrs) {
            self.add_use(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if names.len() > 1 && path.leading_colon.is_none() {
            self.add_path(names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.add_tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}
