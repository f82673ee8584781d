/* For proofs of what is made of those functions: is_set is whatever they promise, so that no prover
 * sees bits. */
/*@ axiomatic Word {
  @   predicate is_set(integer word, integer i);
  @   axiom zero_has_none: \forall integer i; 0 <= i < 64 ==> !is_set(0, i);
  @ }
  @*/
