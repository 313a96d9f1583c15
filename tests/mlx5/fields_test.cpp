// Compares the offsets of all mailbox fields with the tables in tests/data/prm. The test reads the headers as
// text, so a new field is compared without a change here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <regex>
#include <string>
#include <vector>

#include "prm.hpp"
#include "warpverbs/mlx5/commands.hpp"
#include "warpverbs/mlx5/hca_cap.hpp"

namespace warpverbs::mlx5 {
namespace {

struct Declaration {
  std::string type;        // type of the value: "uint32_t"
  std::string identifier;  // "kLogMsgMax"
  std::string name;        // "qpc.log_msg_max"
  prm::Place place;
};

// Returns every field that a header declares. Fails if one does not match the pattern.
std::vector<Declaration> Declarations(const std::string& header) {
  static const std::regex kDeclaration(
      R"re(constexpr\s+Field(?:Place|<(\w+)>)\s+(k\w+)\s*[{\s]+"([\w.]+)",\s*(\d+),\s*(\d+)\})re");
  const std::string text = prm::Header(header);
  std::vector<Declaration> found;
  for (std::sregex_iterator i(text.begin(), text.end(), kDeclaration), end; i != end; ++i) {
    const auto number = [&](int group) { return static_cast<uint32_t>(std::stoul((*i)[group])); };
    found.push_back({(*i)[1], (*i)[2], (*i)[3], {number(4), number(5)}});
  }
  EXPECT_EQ(found.size(), prm::Count(text, R"(constexpr\s+Field(Place)?\b)"))
      << "a declaration in " << header << " escapes";
  EXPECT_EQ(found.size(), prm::Count(text, R"re("\w+\.\w+",)re")) << "a field in " << header << " escapes";
  return found;
}

std::vector<Declaration> AllDeclarations() {
  std::vector<Declaration> all;
  for (const std::string& header : prm::Headers()) {
    if (header == "mailbox.hpp") continue;  // defines what a field is
    const std::vector<Declaration> some = Declarations(header);
    all.insert(all.end(), some.begin(), some.end());
  }
  EXPECT_FALSE(all.empty());
  return all;
}

// "qpc.log_msg_max" -> "kLogMsgMax"
std::string Identifier(const std::string& name) {
  std::string identifier = "k";
  bool upper = true;
  for (const char c : name.substr(name.find('.') + 1)) {
    if (c != '_') identifier += static_cast<char>(upper ? std::toupper(c) : c);
    upper = c == '_';
  }
  return identifier;
}

TEST(Fields, HaveTheOffsetsOfTheTables) {
  for (const Declaration& field : AllDeclarations())
    EXPECT_EQ(field.place, prm::FieldAt(field.name)) << field.name;
}

TEST(Fields, HaveTheNamesOfTheTables) {
  for (const Declaration& field : AllDeclarations()) {
    if (field.identifier == "kObjectNumber") continue;  // qpn, cqn and mkey index share an offset
    EXPECT_EQ(field.identifier, Identifier(field.name));
  }
}

TEST(Fields, HaveTypesThatHoldThem) {
  for (const Declaration& field : AllDeclarations()) {
    EXPECT_EQ(field.type == "bool", field.place.width == 1) << field.name;
    EXPECT_EQ(field.type == "uint64_t", field.place.width == 64) << field.name;
    EXPECT_EQ(field.type.empty(), field.place.width > 64) << field.name << ": too wide for an integer";
    if (field.place.width <= 32) {
      EXPECT_LE(field.place.bit % 32 + field.place.width, 32u) << field.name << ": spans two words";
    } else {
      EXPECT_EQ(field.place.bit % 32, 0u) << field.name << ": does not start a word";
    }
  }
}

TEST(Fields, OfEmbeddedContextsHaveTheOffsetsOfTheTables) {
  EXPECT_EQ(create_cq_in::kCqc, prm::FieldAt("create_cq_in.cq_context").bit);
  EXPECT_EQ(create_qp_in::kQpc, prm::FieldAt("create_qp_in.qpc").bit);
  EXPECT_EQ(query_qp_out::kQpc, prm::FieldAt("query_qp_out.qpc").bit);
  EXPECT_EQ(qpc::kPrimaryAddressPath, prm::FieldAt("qpc.primary_address_path").bit);
  EXPECT_EQ(create_dct_in::kDctc, prm::FieldAt("create_dct_in.dct_context_entry").bit);
  EXPECT_EQ(query_dct_out::kDctc, prm::FieldAt("query_dct_out.dctc").bit);
  EXPECT_EQ(create_mkey_in::kMkc, prm::FieldAt("create_mkey_in.memory_key_mkey_entry").bit);
  EXPECT_EQ(query_roce_address_out::kAddress, prm::FieldAt("query_roce_address_out.roce_address").bit);
  EXPECT_EQ(query_hca_cap_out::kCapability, prm::FieldAt("query_hca_cap_out.capability").bit);
}

TEST(Mailboxes, HaveTheSizesOfTheTables) {
  const auto bytes = [](const std::string& name) {
    return size_t{prm::FieldAt(name + ".@sizeof").width / 8};
  };
  EXPECT_EQ(kCommandHeaderBytes, bytes("query_qp_in"));
  EXPECT_EQ(kCommandOutBytes, bytes("create_qp_out"));
  EXPECT_EQ(create_cq_in::kBytes, bytes("create_cq_in"));
  EXPECT_EQ(create_qp_in::kBytes, bytes("create_qp_in"));
  EXPECT_EQ(qpc::kBytes, bytes("qpc"));
  EXPECT_EQ(query_qp_out::kBytes, bytes("query_qp_out"));
  EXPECT_EQ(create_dct_in::kBytes, bytes("create_dct_in"));
  EXPECT_EQ(query_dct_out::kBytes, bytes("query_dct_out"));
  EXPECT_EQ(create_mkey_in::kBytes, bytes("create_mkey_in"));
  EXPECT_EQ(query_roce_address_in::kBytes, bytes("query_roce_address_in"));
  EXPECT_EQ(query_roce_address_out::kBytes, bytes("query_roce_address_out"));
  EXPECT_EQ(query_hca_cap_out::kBytes, bytes("query_hca_cap_out"));
}

TEST(Fields, HaveTheSameOffsetsInAllTransitions) {
  for (const std::string command :
       {"rst2init_qp_in", "init2init_qp_in", "init2rtr_qp_in", "rtr2rts_qp_in", "rts2rts_qp_in"}) {
    EXPECT_EQ(prm::FieldAt(command + ".qpn").bit, modify_qp_in::kQpn.bit) << command;
    EXPECT_EQ(prm::FieldAt(command + ".opt_param_mask").bit, modify_qp_in::kOptParamMask.bit) << command;
    EXPECT_EQ(prm::FieldAt(command + ".qpc").bit, modify_qp_in::kQpc) << command;
  }
  EXPECT_EQ(modify_qp_in::kBytes * 8, prm::FieldAt("init2rtr_qp_in.@sizeof").width);
}

TEST(Fields, HaveTheSameOffsetsInAllCommands) {
  const std::vector<std::pair<std::string, FieldPlace>> common = {{"opcode", command_in::kOpcode},
                                                                  {"op_mod", command_in::kOpMod},
                                                                  {"status", command_out::kStatus},
                                                                  {"syndrome", command_out::kSyndrome}};
  const std::regex command(R"((\w+_(?:in|out))\.@sizeof)");
  size_t compared = 0;
  for (const auto& [name, size] : prm::Fields()) {
    std::smatch match;
    if (!std::regex_match(name, match, command)) continue;
    for (const auto& [field, place] : common) {
      const auto found = prm::Fields().find(match[1].str() + "." + field);
      if (found == prm::Fields().end()) continue;  // a response has no opcode, and a command no status
      EXPECT_EQ(found->second, (prm::Place{place.bit, place.width})) << found->first;
      ++compared;
    }
  }
  EXPECT_GE(compared, 2 * common.size());
}

TEST(Fields, HaveTheSameOffsetForEveryObjectNumber) {
  for (const std::string name : {"query_qp_in.qpn", "destroy_qp_in.qpn", "qp_2err_in.qpn", "qp_2rst_in.qpn",
                                 "destroy_cq_in.cqn", "destroy_mkey_in.mkey_index", "dealloc_pd_in.pd"}) {
    EXPECT_EQ(prm::FieldAt(name),
              (prm::Place{command_in::kObjectNumber.bit, command_in::kObjectNumber.width}))
        << name;
  }
  for (const std::string name :
       {"create_cq_out.cqn", "create_qp_out.qpn", "create_mkey_out.mkey_index", "alloc_pd_out.pd"}) {
    EXPECT_EQ(prm::FieldAt(name),
              (prm::Place{command_out::kObjectNumber.bit, command_out::kObjectNumber.width}))
        << name;
  }
}

TEST(Fields, MoveWithTheirContext) {
  constexpr auto kPd = qpc::kPd.At(create_qp_in::kQpc);
  EXPECT_EQ(kPd.bit, prm::FieldAt("create_qp_in.qpc").bit + prm::FieldAt("qpc.pd").bit);
  EXPECT_EQ(kPd.width, prm::FieldAt("qpc.pd").width);
}

}  // namespace
}  // namespace warpverbs::mlx5
