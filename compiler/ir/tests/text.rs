//! The text format: files that say how they print, every op's samples, and random damage.

mod common;

use std::sync::Arc;

use common::ty;
use kiln_filetest::{Case, Outcome, run_folder};
use kiln_ir::op::{Binary, Call, Unary};
use kiln_ir::text::{Printer, parse_literal, parse_module};
use kiln_ir::{DType, Graph, Literal, Op, ParameterInfo, Scalar, Source, Type, eval, verify};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/files");

/// The program as it prints. Without an expected text it only has to come back.
fn parse_print(case: &Case) -> Result<Outcome, String> {
    let graph = case.graph()?;
    let printed = graph.to_string();
    let again = Graph::parse(&printed).map_err(|error| format!("does not parse back: {error}"))?;
    if again.to_string() != printed {
        return Err(format!("prints differently the second time:\n{again}"));
    }
    if again.canonical_text() != graph.canonical_text() {
        return Err("parses back to another graph".to_string());
    }
    if case.expects_text() { Ok(Outcome::Text(printed)) } else { Ok(Outcome::Done) }
}

fn verifies(case: &Case) -> Result<Outcome, String> {
    verify(&case.graph()?).map_err(|error| error.to_string())?;
    Ok(Outcome::Done)
}

fn evaluates(case: &Case) -> Result<Outcome, String> {
    case.run_with(|graph, arguments| eval(graph, arguments).map_err(|error| error.to_string()))
}

#[test]
fn files() {
    let runners: [kiln_filetest::Runner; 3] =
        [("parse-print", &parse_print), ("verify", &verifies), ("eval", &evaluates)];
    run_folder(format!("{FILES}/ir"), &runners, &[]);
    run_folder(format!("{FILES}/cases"), &runners, &["run"]);
}

// --- every op, every scalar ---------------------------------------------------

/// A graph that applies the op of each sample to parameters.
fn sample_graph(op: &Op, operands: &[Type]) -> Graph {
    let mut graph = Graph::new("sample");
    let parameter = |ty: &Type| graph.add_parameter(ty.clone(), ParameterInfo::default());
    let operands: Vec<_> = operands.iter().map(parameter).collect();
    let node = graph.add(op.clone(), &operands, None).expect("samples are accepted");
    for value in graph.results(node) {
        graph.add_output(value, "");
    }
    graph
}

#[test]
fn every_sample_of_every_op_comes_back() {
    for (row, samples) in Op::samples() {
        for sample in samples {
            let graph = sample_graph(&sample.op, &sample.operands);
            verify(&graph).unwrap_or_else(|error| panic!("{row}: {error}"));
            let printed = graph.to_string();
            let again = Graph::parse(&printed).unwrap_or_else(|error| panic!("{row}: {error}"));
            assert_eq!(again.to_string(), printed);
            let node = |graph: &Graph| *graph.order().last().expect("a node");
            let (before, after) = (graph.op(node(&graph)), again.op(node(&again)));
            // Ops that hold a graph are equal only to themselves; their graphs are in the text.
            if before.graphs().is_empty() {
                assert_eq!(before, after, "{printed}");
            }
        }
    }
}

#[test]
fn every_op_has_a_file() {
    let mut files = String::new();
    for folder in ["ir/ops", "ir/format"] {
        for entry in std::fs::read_dir(format!("{FILES}/{folder}")).expect("the folder is there") {
            files += &std::fs::read_to_string(entry.expect("readable").path()).expect("readable");
        }
    }
    for (_, samples) in Op::samples() {
        for sample in samples {
            let name = sample.op.name();
            assert!(files.contains(&format!("= {name} ")), "no file has the op {name}");
        }
    }
}

#[test]
fn scalars_come_back_bit_for_bit() {
    for dtype in DType::REAL {
        let mask = u64::MAX >> (64 - 8 * dtype.size());
        let (edges, patterns) = match dtype {
            DType::Bool => (vec![], 2),
            // Of larger types the ends of every field, and what a multiplication scatters.
            _ if dtype.size() > 2 => ((0..64).map(|shift| u64::MAX >> shift).collect(), 1 << 16),
            _ => (vec![], 1u64 << dtype.bits()),
        };
        let scattered = (0..patterns).map(|i| match dtype.size() {
            1 | 2 => i,
            _ => i.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(i as u32) & mask,
        });
        let edges = edges.into_iter().flat_map(|x| [x & mask, !x & mask]);
        for bits in edges.chain(scattered) {
            let scalar = Scalar::from_bits(dtype, bits);
            let printed = scalar.to_string();
            assert_eq!(Scalar::parse(dtype, &printed), Some(scalar), "{dtype} {bits:#x} {printed}");
        }
    }
}

#[test]
fn complex_scalars_come_back_bit_for_bit() {
    for dtype in [DType::C64, DType::C128] {
        let nan = Scalar::from_bits(dtype.part(), 0x7f80_0001);
        let parts = [0.0, -0.0, 1.5, -1e-40, 1e30, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let parts = parts.map(|x| Scalar::from_f64(dtype.part(), x));
        for re in parts.into_iter().chain([nan]) {
            for im in parts.into_iter().chain([nan]) {
                let scalar = Scalar::complex(re, im);
                let printed = scalar.to_string();
                assert_eq!(Scalar::parse(dtype, &printed), Some(scalar), "{dtype} {printed}");
                let literal = parse_literal(&format!("{dtype}[2] [{printed}, (1.0,2.0)]"));
                assert_eq!(literal.expect("a literal").get(0), scalar);
            }
        }
    }
}

#[test]
fn what_is_no_scalar_is_refused() {
    let refused = |dtype, texts: &[&str]| {
        for text in texts {
            assert_eq!(Scalar::parse(dtype, text), None, "{dtype} {text}");
        }
    };
    refused(DType::Bool, &["1", "0", "True", ""]);
    refused(DType::I8, &["128", "-129", "1.0", "+1", "0x1", "nan", "-", "", "1_0"]);
    refused(DType::U64, &["-1", "18446744073709551616"]);
    refused(DType::F32, &["1e39", "-1e39", "infinity", "NaN", "-nan", "+1.0", ".5", "0x100000000"]);
    refused(DType::F32, &["0x", "0x+1", "0x-1", "--1", "1e", "true", "-", "-0x1"]);
    refused(DType::F16, &["65520.0", "0x10000"]);
    refused(DType::C64, &["1.0", "(1.0)", "(1.0, 2.0, 3.0)", "(1.0, 1e39)", "(1.0; 2.0)", "()"]);
    refused(DType::F64, &["1e309"]);
    assert_eq!(Scalar::parse(DType::F16, "65519"), Scalar::parse(DType::F16, "65504.0"));
}

#[test]
fn literals_name_their_type() {
    let literal = parse_literal("i32[2,2] [1, 2, 3, 4]").unwrap();
    assert_eq!(literal, Literal::from_slice([2, 2], &[1, 2, 3, 4]));
    assert_eq!(parse_literal("bool[2] true").unwrap(), Literal::from_slice([2], &[true, true]));
    assert_eq!(parse_literal("f32[0] []").unwrap().ty(), &ty("f32[0]"));
    for text in ["", "f32", "f32[2]", "f32[2] [1.0]", "f32[] [1.0]", "i32[] 1 2", "f32[2] @x"] {
        parse_literal(text).expect_err(text);
    }
}

// --- printing -------------------------------------------------------------------

#[test]
fn locations_come_back_when_printed() {
    let text = r#"graph @main(%x: f32[2]) -> f32[2] {
  %0 = exp %x : f32[2] loc("src/a \"b\".rs":41:5 "block3/attention")
  %1 = neg %0 : f32[2] loc("src/model.rs":42)
  return %1
}
"#;
    let graph = Graph::parse(text).unwrap();
    let printer = Printer { locations: true, ..Printer::default() };
    assert_eq!(printer.print(&graph), text);
    let node = graph.order()[1];
    let source = graph.source(node).expect("a location");
    assert_eq!(
        (source.line, source.column, source.scope.as_deref()),
        (41, 5, Some("block3/attention"))
    );
    // A node without one is from where its text begins.
    let module = parse_module("dir/f.kiln", &graph.to_string()).unwrap();
    let main = module.main().unwrap();
    let at = Source { file: "dir/f.kiln".into(), line: 3, column: 3, scope: None };
    assert_eq!(main.source(main.order()[2]), Some(&at));
}

#[test]
fn notes_are_comments() {
    let graph = Graph::parse("graph @f(%x: f32[]) -> f32[] { %y = neg %x : f32[] return %y }");
    let graph = graph.unwrap();
    let note = |node| Some(format!("{} bytes\nin one line", graph.types(node)[0].bytes()));
    let printed = Printer { annotate: Some(&note), ..Printer::default() }.print(&graph);
    assert!(printed.contains("  %0 = neg %x : f32[] // 4 bytes in one line\n"), "{printed}");
    assert_eq!(Graph::parse(&printed).unwrap().to_string(), graph.to_string());
}

#[test]
fn names_that_collide_are_told_apart() {
    let mut graph = Graph::new("f");
    for name in ["", "p0", "x", "x", "0"] {
        let info = ParameterInfo { name: name.to_string(), donated: false };
        graph.add_parameter(ty("f32[]"), info);
    }
    let callee = || Arc::new(Graph::new("f"));
    for graph_called in [callee(), callee()] {
        graph.add(Call::new(graph_called), &[], None).unwrap();
    }
    let x = graph.parameters().next().unwrap();
    let y = graph.add1(Unary::Neg, &[x], None).unwrap();
    graph.add_output(y, "");
    let printed = graph.to_string();
    assert_eq!(
        printed,
        "graph @f() -> () {\n  return\n}\n\n\
         graph @f_1() -> () {\n  return\n}\n\n\
         graph @f_2(%p0: f32[], %p0_1: f32[], %x: f32[], %x_1: f32[], %0: f32[]) -> f32[] {\n  \
         call {graph = @f} : ()\n  call {graph = @f_1} : ()\n  \
         %1 = neg %p0 : f32[]\n  return %1\n}\n"
    );
    assert_eq!(Graph::parse(&printed).unwrap().to_string(), printed);
}

#[test]
fn graphs_without_a_name_come_back() {
    let mut graph = Graph::new("");
    graph.add(Call::new(Arc::new(Graph::new(""))), &[], None).unwrap();
    let printed = graph.to_string();
    assert!(printed.starts_with("graph @\"\"() -> () {"), "{printed}");
    assert_eq!(Graph::parse(&printed).unwrap().to_string(), printed);
    Graph::parse("graph @() -> () { return }").unwrap_err();
}

#[test]
fn a_callee_of_many_is_printed_once_and_first() {
    let mut graph = Arc::new(Graph::new("leaf"));
    // Each level calls the one below twice: 2^100 calls, 101 graphs.
    for level in 0..100 {
        let mut caller = Graph::new(format!("level{level}"));
        for _ in 0..2 {
            caller.add(Call::new(graph.clone()), &[], None).unwrap();
        }
        graph = Arc::new(caller);
    }
    verify(&graph).unwrap();
    let printed = graph.to_string();
    let module = parse_module("levels", &printed).unwrap();
    assert_eq!(module.graphs.len(), 101);
    assert_eq!(module.graphs[0].name(), "leaf");
    assert_eq!(module.main().unwrap().name(), "level99");
    assert_eq!(module.get("level7").unwrap().len(), 2);
}

#[test]
fn calls_nest_only_so_deep() {
    let mut text = "graph @g0() -> () {\n  return\n}\n".to_string();
    for i in 1..300 {
        let inner = i - 1;
        text +=
            &format!("graph @g{i}() -> () {{\n  call {{graph = @g{inner}}} : ()\n  return\n}}\n");
    }
    let error = parse_module("deep", &text).unwrap_err();
    assert_eq!(error.message(), "calls nest deeper than 200");
}

// --- canonical text ---------------------------------------------------------------

fn canonical(text: &str) -> String {
    Graph::parse(text).unwrap_or_else(|error| panic!("{error}")).canonical_text()
}

#[test]
fn canonical_texts_say_what_is_computed() {
    let text = canonical(
        "graph @f(%x: f32[], %y: f32[]) -> f32[] {
           %a = neg %x : f32[]
           %dead = exp %x : f32[]
           %b = neg %y : f32[]
           %c = sub %b, %a : f32[]
           return %c \"loss\"
         }",
    );
    assert_eq!(
        text,
        "graph @main(%p0: f32[], %p1: f32[]) -> f32[] {\n  %0 = neg %p1 : f32[]\n  \
         %1 = neg %p0 : f32[]\n  %2 = sub %0, %1 : f32[]\n  return %2\n}\n"
    );
    // Its own canonical text, in another order and under other names.
    assert_eq!(canonical(&text), text);
    let other = |from: &str, to: &str| assert_ne!(canonical(&text.replace(from, to)), text);
    other("sub %0, %1", "sub %1, %0");
    other("%p1: f32[]", "%p1: f32[] {donated}");
    other("%p1: f32[]", "%p1: f32[], %unused: f32[]");
    other("%1 = neg", "%1 = abs");
}

#[test]
fn graphs_are_the_same_as_others_that_compute_the_same() {
    let parse = |text: &str| Graph::parse(text).unwrap();
    let one = parse("graph @f(%x: f32[]) -> f32[] { %a = neg %x : f32[] return %a }");
    let renamed = parse("graph @g(%y: f32[]) -> f32[] { %b = neg %y : f32[] return %b \"loss\" }");
    let other = parse("graph @f(%x: f32[]) -> f32[] { %a = abs %x : f32[] return %a }");
    assert!(one.same_as(&renamed) && one.same_as(&one.clone()));
    assert!(!one.same_as(&other));
}

#[test]
fn canonical_texts_merge_equal_callees() {
    let callee = |name: &str| {
        format!("graph @{name}(%x: f32[]) -> f32[] {{ %y = neg %x : f32[] return %y }}\n")
    };
    let caller = |first: &str, second: &str, dead: &str| {
        format!(
            "graph @main(%x: f32[]) -> f32[] {{
               %a = call %x {{graph = @{first}}} : f32[]
               %dead = call %x {{graph = @{dead}}} : f32[]
               %b = call %a {{graph = @{second}}} : f32[]
               return %b
             }}"
        )
    };
    let one = canonical(&(callee("f") + &caller("f", "f", "f")));
    let two = callee("h") + &callee("g").replace("neg", "abs") + &callee("f");
    assert_eq!(canonical(&(two.clone() + &caller("f", "h", "g"))), one);
    assert_ne!(canonical(&(two + &caller("f", "g", "h"))), one);
    assert_eq!(one.matches("graph @").count(), 2);
}

#[test]
fn long_chains_do_not_overflow_the_stack() {
    let mut graph = Graph::new("chain");
    let mut value = graph.add_parameter(ty("f32[]"), ParameterInfo::default());
    for _ in 0..50_000 {
        value = graph.add1(Binary::Add, &[value, value], None).unwrap();
    }
    graph.add_output(value, "");
    verify(&graph).unwrap();
    assert_eq!(graph.canonical_text().lines().count(), 50_003);
}

// --- errors -----------------------------------------------------------------------

#[test]
fn errors_show_the_line() {
    let text = "graph @f(%x: f32[4]) -> f32[4] {\n\t%ä = neg %x : f32[4]\n  return %x\n}\n";
    let error = parse_module("dir/f.kiln", text).unwrap_err();
    assert_eq!((error.file(), error.line(), error.column()), ("dir/f.kiln", 2, 2));
    assert_eq!(
        error.to_string(),
        "dir/f.kiln:2:2: wants a name after `%`\n  \t%ä = neg %x : f32[4]\n  \t^"
    );
    let error = Graph::parse("// nothing").unwrap_err();
    assert_eq!(error.message(), "wants a graph");
    let long = format!("graph @f() -> ({}", "f32[4], ".repeat(10_000));
    assert!(Graph::parse(&long).unwrap_err().to_string().len() < 400);
}

#[test]
fn commas_stand_between_items() {
    for (node, column) in [
        ("%a, = neg %x : f32[]", 7),
        ("%a = add %x, %x, : f32[]", 20),
        ("return %x, }", 14),
        ("%a = neg %x : f32[], return %a", 24),
    ] {
        let text = format!("graph @f(%x: f32[]) -> f32[] {{\n  {node}\n  return %x\n}}\n");
        let error = Graph::parse(&text).expect_err(&text);
        assert_eq!((error.line(), error.column()), (2, column), "{error}");
    }
}

#[test]
fn a_short_text_cannot_ask_for_all_of_memory() {
    // The second constant alone would be small enough.
    let (one, limit) = ("i8[1]", format!("i8[{}]", 1 << 30));
    let text = format!(
        "graph @f() -> () {{\n%a = constant {{value = 0}} : {one}\n\
         %b = constant {{value = 0}} : {limit}\nreturn }}"
    );
    let error = Graph::parse(&text).unwrap_err();
    assert_eq!(error.line(), 3);
    assert_eq!(error.message(), "the constants of a text may have 1073741824 bytes in all");
    let error = parse_literal(&format!("i8[{}] 0", (1u64 << 30) + 1)).unwrap_err();
    assert_eq!(error.message(), "the constants of a text may have 1073741824 bytes in all");
}

/// Numbers that look random and are the same every time (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..(start + self.below(12)).min(length)
    }
}

/// One to three pieces of one text removed, repeated, replaced by a mark, or replaced by a
/// piece of another text.
fn damage(random: &mut Random, texts: &[Vec<char>]) -> String {
    const MARKS: [&str; 24] = [
        "%",
        "@",
        "\"",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ",",
        ":",
        "=",
        "->",
        "-",
        "//",
        "\\",
        "\n",
        "0x",
        "18446744073709551615",
        "-9223372036854775808",
        "nan",
        "é",
        "\0",
        "loc(",
    ];
    let mut text = texts[random.below(texts.len())].clone();
    for _ in 0..=random.below(3) {
        let range = random.range(text.len());
        let piece: Vec<char> = match random.below(4) {
            0 => vec![],
            1 => text[range.clone()].repeat(2),
            2 => MARKS[random.below(MARKS.len())].chars().collect(),
            _ => {
                let other = &texts[random.below(texts.len())];
                other[random.range(other.len())].to_vec()
            }
        };
        text.splice(range, piece);
    }
    text.into_iter().collect()
}

#[test]
fn damaged_texts_are_errors_or_graphs() {
    let mut texts: Vec<Vec<char>> = Vec::new();
    for folder in ["ir/format", "ir/ops", "cases"] {
        let entries = std::fs::read_dir(format!("{FILES}/{folder}")).expect("the folder is there");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
        paths.sort();
        for path in paths {
            let text = std::fs::read_to_string(&path).expect("readable");
            let (program, _) = text.split_once("// expect:").unwrap_or((&text, ""));
            let from = program.find("graph").expect("a graph");
            texts.push(program[from..].chars().collect());
        }
    }
    texts.retain(|text| text.len() < 3000);
    assert!(texts.len() > 50);
    let (mut random, mut graphs) = (Random(1), 0);
    for _ in 0..20_000 {
        let text = damage(&mut random, &texts);
        match parse_module("damaged", &text) {
            Ok(module) => {
                for graph in &module.graphs {
                    verify(graph).unwrap_or_else(|error| panic!("{error}\n{text}"));
                    let printed = graph.to_string();
                    let again = Graph::parse(&printed).unwrap_or_else(|e| panic!("{e}\n{text}"));
                    assert_eq!(again.to_string(), printed, "{text}");
                    graphs += 1;
                }
            }
            Err(error) => {
                let lines = text.split('\n').count() as u32;
                assert!((1..=lines).contains(&error.line()) && error.column() > 0, "{error}");
                assert!(!error.to_string().is_empty());
            }
        }
    }
    // The damage is neither nothing nor everything.
    assert!((500..15_000).contains(&graphs), "{graphs} graphs of damaged texts");
}
