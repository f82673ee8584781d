/* For proofs of the functions of one word: is_set is the bit. The axiom of word_opaque.h is a lemma
 * here. */
/*@ predicate is_set(integer word, integer i) = ((word >> i) & 1) == 1;
  @ lemma zero_has_none: \forall integer i; 0 <= i < 64 ==> !is_set(0, i);
  @*/
