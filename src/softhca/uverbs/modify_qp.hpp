#pragma once

#include "uverbs/method.hpp"

namespace softhca::uverbs {

/// MODIFY_QP and EX_MODIFY_QP: the attributes of the verbs interface, by their mask.
void ModifyQpByVerbs(Call& call);
/// QUERY_QP of the verbs interface.
void QueryQpByVerbs(Call& call);

}  // namespace softhca::uverbs
