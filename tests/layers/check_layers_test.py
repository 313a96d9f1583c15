#!/usr/bin/env python3
"""Shows that check_layers.py finds violations and passes what is allowed."""

import pathlib
import tempfile
import unittest

import check_layers


class CheckLayers(unittest.TestCase):
    def check(self, files):
        """Returns the violations in a tree of the given files and a header in every layer."""
        tree = {f"include/warpverbs/{layer}/{layer}.hpp": "" for layer in check_layers.MAY_INCLUDE} | files
        with tempfile.TemporaryDirectory() as root:
            for name, text in tree.items():
                path = pathlib.Path(root) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_layers.violations(root)

    def include(self, layer, other):
        return self.check({f"include/warpverbs/{layer}/x.hpp": f'#include "warpverbs/{other}/{other}.hpp"\n'})

    def test_every_pair_of_layers(self):
        for layer, allowed in check_layers.MAY_INCLUDE.items():
            for other in check_layers.MAY_INCLUDE:
                with self.subTest(layer=layer, other=other):
                    self.assertEqual(self.include(layer, other) == [], other == layer or other in allowed)

    def test_host_may_run_the_data_path_itself(self):
        self.assertEqual(self.include("host", "arch") + self.include("host", "device"), [])
        self.assertEqual(len(self.include("arch", "host") + self.include("device", "host")), 2)

    def test_names_file_and_rule(self):
        self.assertEqual(self.include("softhca", "host"), [
            "include/warpverbs/softhca/x.hpp: includes warpverbs/host/host.hpp, but softhca/ may include mlx5, sync"])

    def test_sources_follow_their_layer(self):
        self.assertEqual(len(self.check({"src/softhca/core/x.cpp": "#include <warpverbs/device/device.hpp>\n"})), 1)
        self.assertEqual(self.check({"src/host/x.cpp": '#include "warpverbs/host/host.hpp"\n#include <vector>\n'}), [])

    def test_paths_within_a_layer_and_out_of_it(self):
        private = {"src/host/detail.hpp": "", "src/softhca/core/qp.hpp": ""}
        self.assertEqual(self.check(private | {"src/softhca/cli/x.cpp": '#include "core/qp.hpp"\n'}), [])
        self.assertEqual(len(self.check(private | {"src/softhca/x.cpp": '#include "../host/detail.hpp"\n'})), 1)

    def test_every_pair_of_folders(self):
        for layer, folders in check_layers.FOLDERS_MAY_INCLUDE.items():
            for folder, allowed in folders.items():
                for other in folders:
                    with self.subTest(layer=layer, folder=folder, other=other):
                        found = self.check({f"src/{layer}/{other}/{other}.hpp": "",
                                            f"src/{layer}/{folder}/x.cpp": f'#include "{layer}/{other}/{other}.hpp"\n'})
                        self.assertEqual(found == [], other == folder or other in allowed)

    def test_one_folder_may_include_another_layer(self):
        self.assertEqual(self.check({"src/gpuio/programs/x.cpp": '#include "warpverbs/programs/programs.hpp"\n'}), [])
        self.assertEqual(len(self.check({"src/gpuio/server/x.cpp": '#include "warpverbs/programs/programs.hpp"\n'})), 1)

    def test_names_softhcas_folder_and_rule(self):
        self.assertEqual(self.check({"src/softhca/observe/log.hpp": "",
                                     "src/softhca/cm/x.hpp": '#include "observe/log.hpp"\n'}),
                         ["src/softhca/cm/x.hpp: includes observe/log.hpp, but softhca/cm/ may include core, wire"])

    def test_unknown_folder_of_softhca_includes_no_other(self):
        self.assertEqual(len(self.check({"src/softhca/core/qp.hpp": "",
                                         "src/softhca/misc/x.cpp": '#include "core/qp.hpp"\n'})), 1)

    def test_kernels_depend_on_nothing(self):
        self.assertEqual(len(self.check({"include/warpverbs/device/x.hpp": "#include <infiniband/verbs.h>\n"})), 1)
        self.assertEqual(self.check({"include/warpverbs/host/x.hpp": "#include <infiniband/verbs.h>\n"}), [])

    def test_every_layer_may_include_the_version(self):
        version = {"include/warpverbs/version.hpp": ""}
        self.assertEqual(self.check(version | {"src/host/x.cpp": '#include "warpverbs/version.hpp"\n'}), [])
        self.assertEqual(len(self.check({"include/warpverbs/version.hpp": "#include <string>\n"})), 1)

    def test_unknown_layer(self):
        self.assertEqual(len(self.check({"src/misc/x.cpp": ""})), 1)

    def test_processor_conditionals(self):
        cuda = "#if defined(__CUDACC__)\n#endif\n"
        two = {"include/warpverbs/arch/a.hpp": cuda, "include/warpverbs/arch/b.hpp": "#ifdef __HIP__\n#endif\n"}
        self.assertEqual(self.check(two), [])
        self.assertEqual(len(self.check(two | {"include/warpverbs/arch/c.hpp": cuda})), 1)
        self.assertEqual(len(self.check({"include/warpverbs/device/a.hpp": cuda})), 1)


if __name__ == "__main__":
    unittest.main()
