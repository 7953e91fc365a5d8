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


class Comments(unittest.TestCase):
    def test_a_comment_is_a_sentence(self):
        for comment in ("// Of none 1 for all", "  int x;  // Those of a folder", "//Of one"):
            self.assertEqual(1, len(list(check_words.fragments(comment, "x.h"))), comment)

    def test_sentences_pass(self):
        self.assertEqual([], list(check_words.fragments("// Often\n// one of\nOf x\n", "x.h")))
