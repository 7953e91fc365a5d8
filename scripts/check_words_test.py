"""Tests of check_words.py on made-up documents and comments."""

import json
import pathlib
import tempfile
import unittest

import check_words


def errors_of(text, name="made_up.md"):
    with tempfile.TemporaryDirectory() as folder:
        document = pathlib.Path(folder) / name
        document.write_text(text, encoding="utf-8")
        return list(check_words.document_errors(document, check_words.symbols()))


class Files(unittest.TestCase):
    def test_files_of_the_project_are_found(self):
        self.assertEqual([], errors_of(
            "core/tensor.h, `kernels/linear.{h,cpp}`, `x.cu`, .cu sources,\n"
            "`accrue/accrue.h` and `accrue/core/tensor.h`; `linear.cu`\n"))

    def test_files_that_are_not_there_are_named(self):
        self.assertEqual(["made_up.md:2: there is no kernels/lineal.cpp"],
                         errors_of("kernels/linear.h\nand `kernels/lineal.cpp`.\n"))
        self.assertEqual(1, len(errors_of("core/tensor.hpp or core/tensors.h\n")))
        self.assertEqual(1, len(errors_of("kernels/linear.{h,cpp,cuh}\n")))
        self.assertEqual(1, len(errors_of("`lineal.cu`\n")))

    def test_links_lead_to_files(self):
        found = errors_of("[memory](memory.md#planning), [web](https://a.b/c.md)\n")
        self.assertEqual(1, len(found))

    def test_what_a_document_makes_is_there(self):
        self.assertEqual([], errors_of("<!-- part of kernels/prelu.h -->\n\n    int x;\n\n"
                                       "`kernels/prelu.cu` and `prelu.cpp`\n"))

    def test_blocks_and_what_runs_write_are_left_alone(self):
        self.assertEqual([], errors_of("\n    core/nothing.h\n\nlog/page.html, `runs/a.py`\n"
                                       "```\ncore/nothing.h\n```\n"))

    def test_of_a_notebook_what_is_not_code_is_read(self):
        cells = [{"cell_type": kind, "source": [f"See core/{kind}.h.\n"]}
                 for kind in ("markdown", "code")]
        self.assertEqual(["made_up.ipynb:1: there is no core/markdown.h"],
                         errors_of(json.dumps({"cells": cells}), "made_up.ipynb"))


class Options(unittest.TestCase):
    def test_a_library_names_no_options(self):
        def found(text):
            return len(list(check_words.options_in(text, "x.cpp")))

        self.assertEqual(1, found('fail("expected --micro-batch 4");'))
        self.assertEqual(1, found('fail("a \\"b\\" or "\n     "--skip-bad");'))
        self.assertEqual(0, found('// as --micro-batch says\nfail("a - b, a--b, x -- y");'))
        self.assertEqual(0, found('fail("configure with --preset cuda");'))

    def test_libraries_are_neither_the_program_nor_domains(self):
        for path, is_one in (("text/rows.cpp", True), ("text/domain.cpp", False),
                             ("apps/text/write.cpp", False), ("python/call.cpp", False)):
            self.assertEqual(is_one, check_words.is_library(check_words.ROOT / path))


class Symbols(unittest.TestCase):
    def test_functions_and_members_are_found(self):
        self.assertEqual([], errors_of(
            "`backward()`, `Window::step()`, `Device::meta`, `sqrt(x + 1)`,\n"
            "`launch<cpu::kernel, cuda::kernel>(device, args...)`\n"))

    def test_names_that_no_source_has_are_named(self):
        for name in ("`backwards_of()`", "`Window::steppe`", "`Windowing::step()`"):
            self.assertEqual(1, len(errors_of(f"It is {name} here.\n")), name)

    def test_comments_are_no_sources(self):
        code = check_words.code_of("int x;  // forgotten()\n/* forgotten */")
        self.assertNotIn("forgotten", code)


class Sentences(unittest.TestCase):
    LONG = " ".join(["word"] * 41)
    SHORT = " ".join(["word"] * 25)

    def test_a_sentence_has_at_most_40_words(self):
        self.assertEqual(["made_up.md:3: a sentence of 41 words, at most 40:"
                          " word word word word word word ..."],
                         errors_of(f"# A heading\n\n{self.LONG}.\n"))
        self.assertEqual([], errors_of(f"{self.SHORT}.\n{self.SHORT}! {self.SHORT}?\n"))

    def test_lines_and_items_of_a_list_are_told_apart(self):
        broken = self.LONG.replace(" ", "\n", 3)
        self.assertEqual(1, len(errors_of(f"- {broken}.\n")))
        items, apart = f"- {self.SHORT}\n" * 2, f"\n{self.SHORT}\n" * 2
        self.assertEqual([], errors_of(items + apart))

    def test_abbreviations_and_numbers_end_no_sentence(self):
        for text in ("(He et al. 2015)", "e.g. this", "0.5 or x.h"):
            self.assertEqual(1, len(errors_of(f"{self.SHORT} {text} {self.SHORT}.\n")), text)

    def test_code_is_one_word(self):
        codes = ", ".join(f"`{self.SHORT} {i}`" for i in range(50))
        self.assertEqual([], errors_of(f"Take {codes} and `{self.LONG}`.\n"))
        address = "https://x.y/" + self.LONG.replace(" ", "/")
        self.assertEqual([], errors_of(f"[{self.SHORT}]({address}).\n"))

    def test_blocks_tables_and_options_have_no_sentences(self):
        for text in (f"    {self.LONG}", f"```\n{self.LONG}\n```", f"| {self.LONG} |",
                     f"- `--option`: {self.LONG}"):
            self.assertEqual([], errors_of(f"A.\n\n{text}\n"), text)

    def test_dialect_is_named(self):
        for text in ("It goes on in halves of it, and of these.", "Tokens are those of the model.",
                     "The options, of which some are\nthose of train.",
                     "It counts what a convolution multiplies of them.", "This is what it reads.",
                     "It runs. What is drawn by comes first.", "The count is said.",
                     "Keys are heeded.", "It is right in the mean.", "A task of one's own.",
                     "Pieces of so many tokens.",
                     "Of masks it takes three.", "It says what is there."):
            self.assertEqual(1, len(errors_of(text + "\n")), text)
            self.assertEqual(1, len(errors_of("| a | b |\n|---|---|\n| c | " +
                                              text.replace("\n", " ") + " |\n")), text)

    def test_plain_words_pass(self):
        for text in ("Take one of these: a, b.", "Each of these pages links here.",
                     "What to keep: y.", "What is a window? A batch.", "`those of` and",
                     "## What is there",
                     "Of course it works.", "    is what"):
            self.assertEqual([], errors_of(f"It works.\n\n{text}\n"), text)


class Comments(unittest.TestCase):
    def test_a_comment_is_a_sentence(self):
        for comment in ("// Of none 1 for all", "  int x;  // Those of a folder", "//Of one"):
            self.assertEqual(1, len(list(check_words.fragments(comment, "x.h"))), comment)

    def test_sentences_pass(self):
        self.assertEqual([], list(check_words.fragments("// Often\n// one of\nOf x\n", "x.h")))
