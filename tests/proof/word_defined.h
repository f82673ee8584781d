/* For proofs of the functions of one word: is_set is the bit. Its axioms of word_opaque.h are lemmas here. */
/*@ predicate is_set(integer word, integer i) = ((word >> i) & 1) == 1;
  @ lemma zero_has_none: \forall integer i; 0 <= i < 64 ==> !is_set(0, i);
  @*/
