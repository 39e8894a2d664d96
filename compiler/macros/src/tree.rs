//! The impls behind `#[derive(Tree)]`.
//!
//! A type is a list of variants; a struct has one. For each variant there is a
//! pattern that binds every field, and each method is a `match` over those
//! patterns with one line per field. Paths are absolute, so that nothing the user
//! has in scope can change the meaning.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Data, DeriveInput, Error, Fields, Generics, Result, Type};

struct Variant<'a> {
    /// `Self` or `Self::Name`.
    path: TokenStream,
    /// `None` for a struct.
    name: Option<String>,
    fields: Vec<Field<'a>>,
}

struct Field<'a> {
    /// `name` or `0`, as written in a braced pattern or expression.
    member: TokenStream,
    /// What leaf paths call it.
    label: String,
    /// The local that patterns bind it to.
    local: Ident,
    ty: &'a Type,
    is_static: bool,
}

pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let variants = variants(input)?;
    let bounds = bounds(&input.generics, &variants);
    let (impl_generics, ty_generics, where_clause) = bounds.split_for_impl();
    let name = &input.ident;

    let visit = each(&variants, |f| {
        let (x, tree) = (&f.local, quote_spanned!(f.ty.span()=> ::kiln::Tree::visit));
        quote!(#tree(#x, f);)
    });
    let visit_mut = each(&variants, |f| {
        let x = &f.local;
        quote!(::kiln::Tree::visit_mut(#x, f);)
    });
    let into_leaves = each(&variants, |f| {
        let x = &f.local;
        quote!(::kiln::Tree::into_leaves(#x, f);)
    });
    let map = variants.iter().map(|v| {
        let (pattern, path) = (pattern(v), &v.path);
        let fields = v.fields.iter().map(|f| {
            let (member, x) = (&f.member, &f.local);
            if f.is_static {
                quote!(#member: ::core::clone::Clone::clone(#x))
            } else {
                quote!(#member: ::kiln::Tree::map(#x, f))
            }
        });
        quote!(#pattern => #path { #(#fields),* })
    });
    let structure = variants.iter().enumerate().map(|(i, v)| {
        let pattern = pattern(v);
        let variant = v.name.as_ref().map(|_| quote!(key.length(#i);));
        let fields = v.fields.iter().map(|f| {
            let x = &f.local;
            if f.is_static {
                quote_spanned!(f.ty.span()=> ::kiln::tree::StaticValue::encode(#x, key);)
            } else {
                quote!(::kiln::Tree::structure(#x, key);)
            }
        });
        quote!(#pattern => { #variant #(#fields)* })
    });
    let walk = variants.iter().map(|v| {
        let pattern = pattern(v);
        let variant = v.name.as_ref().map(|name| quote!(walk.fixed("", &#name);));
        let fields = v.fields.iter().map(|f| {
            let (x, label) = (&f.local, &f.label);
            if f.is_static {
                quote!(walk.fixed(#label, #x);)
            } else {
                quote!(walk.field(#label, |walk| ::kiln::Tree::walk(#x, walk));)
            }
        });
        quote!(#pattern => { #variant #(#fields)* })
    });

    // An enum without variants has no value, and `match` on a reference to it
    // needs an arm all the same.
    let never = variants.is_empty().then(|| quote!(_ => ::core::unreachable!(),));
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables, clippy::all)]
        impl #impl_generics ::kiln::Tree for #name #ty_generics #where_clause {
            fn visit<'t>(&'t self, f: &mut dyn FnMut(&'t ::kiln::Tensor)) {
                match self { #visit #never }
            }
            fn visit_mut<'t>(&'t mut self, f: &mut dyn FnMut(&'t mut ::kiln::Tensor)) {
                match self { #visit_mut #never }
            }
            fn into_leaves(self, f: &mut dyn FnMut(::kiln::Tensor)) {
                match self { #into_leaves #never }
            }
            fn map(&self, f: &mut dyn FnMut(&::kiln::Tensor) -> ::kiln::Tensor) -> Self {
                match self { #(#map,)* #never }
            }
            fn structure(&self, key: &mut ::kiln::tree::KeyWriter) {
                match self { #(#structure)* #never }
            }
            fn walk(&self, walk: &mut ::kiln::tree::Walk<'_>) {
                match self { #(#walk)* #never }
            }
        }

        #[automatically_derived]
        impl #impl_generics ::kiln::Feed<Self> for #name #ty_generics #where_clause {
            fn key(&self, key: &mut ::kiln::tree::KeyWriter) {
                ::kiln::tree::owned::key(self, key)
            }
            fn describe(&self, walk: &mut ::kiln::tree::Walk<'_>) {
                ::kiln::tree::owned::describe(self, walk)
            }
            fn placeholder(&self, make: &mut ::kiln::tree::Placeholders<'_>) -> Self {
                ::kiln::tree::owned::placeholder(self, make)
            }
            fn inline(self) -> Self {
                self
            }
            fn feed(self, arguments: &mut ::kiln::tree::Arguments) {
                ::kiln::tree::owned::feed(self, arguments)
            }
        }
    })
}

/// `pattern => { line per tree field }` for each variant.
fn each(variants: &[Variant], line: impl Fn(&Field) -> TokenStream) -> TokenStream {
    let arms = variants.iter().map(|v| {
        let pattern = pattern(v);
        let lines = v.fields.iter().filter(|f| !f.is_static).map(&line);
        quote!(#pattern => { #(#lines)* })
    });
    quote!(#(#arms)*)
}

fn pattern(v: &Variant) -> TokenStream {
    let path = &v.path;
    let fields = v.fields.iter().map(|f| {
        let (member, local) = (&f.member, &f.local);
        quote!(#member: #local)
    });
    quote!(#path { #(#fields),* })
}

fn variants(input: &DeriveInput) -> Result<Vec<Variant<'_>>> {
    match &input.data {
        Data::Struct(data) => {
            let fields = fields(&data.fields)?;
            Ok(vec![Variant { path: quote!(Self), name: None, fields }])
        }
        Data::Enum(data) => data
            .variants
            .iter()
            .map(|v| {
                let name = &v.ident;
                Ok(Variant {
                    path: quote!(Self::#name),
                    name: Some(name.to_string()),
                    fields: fields(&v.fields)?,
                })
            })
            .collect(),
        Data::Union(data) => {
            Err(Error::new(data.union_token.span, "a union is not a tree: which field is live?"))
        }
    }
}

fn fields(fields: &Fields) -> Result<Vec<Field<'_>>> {
    fields
        .iter()
        .enumerate()
        .map(|(i, f)| {
            let (member, label) = match &f.ident {
                Some(name) => {
                    (quote!(#name), name.to_string().trim_start_matches("r#").to_string())
                }
                None => {
                    let index = syn::Index::from(i);
                    (quote!(#index), i.to_string())
                }
            };
            let local = format_ident!("field{i}");
            Ok(Field { member, label, local, ty: &f.ty, is_static: is_static(f)? })
        })
        .collect()
}

fn is_static(field: &syn::Field) -> Result<bool> {
    let mut found = false;
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("tree")) {
        let unknown = || Error::new_spanned(attribute, "expected `#[tree(static)]`");
        // `static` is a keyword, which nested-meta parsing does not take.
        let list = attribute.meta.require_list().map_err(|_| unknown())?;
        syn::parse2::<syn::Token![static]>(list.tokens.clone()).map_err(|_| unknown())?;
        found = true;
    }
    Ok(found)
}

/// The type's generics, with `Tree` for parameters that occur in branches and
/// `StaticValue` for those that occur in static fields.
fn bounds(generics: &Generics, variants: &[Variant]) -> Generics {
    let parameters: BTreeSet<String> =
        generics.type_params().map(|p| p.ident.to_string()).collect();
    let (mut tree, mut fixed) = (BTreeSet::new(), BTreeSet::new());
    for field in variants.iter().flat_map(|v| &v.fields) {
        let mut mentions = Mentions { parameters: &parameters, found: BTreeSet::new() };
        mentions.visit_type(field.ty);
        if field.is_static { &mut fixed } else { &mut tree }.append(&mut mentions.found);
    }
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        let name = parameter.ident.to_string();
        if tree.contains(&name) {
            parameter.bounds.push(syn::parse_quote!(::kiln::Tree));
        }
        if fixed.contains(&name) {
            parameter.bounds.push(syn::parse_quote!(::kiln::tree::StaticValue));
        }
        if !tree.contains(&name) && !fixed.contains(&name) {
            parameter.bounds.push(syn::parse_quote!(::core::marker::Send));
            parameter.bounds.push(syn::parse_quote!(::core::marker::Sync));
            parameter.bounds.push(syn::parse_quote!('static));
        }
    }
    generics
}

/// Which type parameters occur in a type.
struct Mentions<'a> {
    parameters: &'a BTreeSet<String>,
    found: BTreeSet<String>,
}

impl Visit<'_> for Mentions<'_> {
    fn visit_ident(&mut self, ident: &Ident) {
        let name = ident.to_string();
        if self.parameters.contains(&name) {
            self.found.insert(name);
        }
    }
}
