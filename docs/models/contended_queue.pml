/*
 * The protocol by which contended posters share a send queue (../contended-queue.md), for an exhaustive search by spin.
 *
 * The posters share one word, {reserved, limit}, and the count of ready slots. The NIC learns of work by record and doorbell,
 * executes it in order, and writes each completion over the one before. A poster's stores of WQEs, record and doorbell become
 * visible late and in any order, unless a release separates them. A wait blocks until a load would bring news. So a wait that
 * nothing ends is a deadlock, which spin calls an invalid end state. Everything else that must hold is a PROPERTY. An atomic
 * step has at most one access to memory that others change, except where a comment gives the reason.
 *
 * Options, by -D:
 *   DEPTH     depth of the queue: 2 or 4
 *   POSTERS   3 or 4
 *   POSTS     posts of each poster, a digit for each. Then it waits for its last ticket, the first poster for its first
 *   SLOTS     slots of each post, a digit for each poster: 1, or 2, of which the first WQE reports no completion
 *   SEGMENT   how far past its own slots a poster moves the limit
 *   FRESH     1: a poster knows nothing of the queue when it posts, as a new one
 *   FAILURES  how many WQEs the NIC may fail
 *   GIVE_UPS  how many waits may end without news, by deadline or abort word
 *   CURIOUS   1: the NIC may read the record unasked
 *   NO_RECORD the doorbell itself tells the NIC how far it may go
 *   MUTATION  which rule is broken
 */
#ifndef DEPTH
#define DEPTH 2
#endif
#ifndef POSTERS
#define POSTERS 3
#endif
#ifndef POSTS
#define POSTS 221
#endif
#ifndef SLOTS
#define SLOTS 111
#endif
#ifndef SEGMENT
#define SEGMENT 2
#endif
#ifndef FRESH
#define FRESH 0
#endif
#ifndef FAILURES
#define FAILURES 0
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 0
#endif
#ifndef CURIOUS
#define CURIOUS 0
#endif
#ifndef MUTATION
#define MUTATION none
#endif

/* Each mutation, the options that reveal it, and the violation that it causes. The test suite reads this table. */
#define none 0
#define reserve_past_limit 1              /* POSTS=221: slot_overwritten */
#define move_limit_past_free_slots 2      /* POSTS=221: slot_overwritten */
#define limit_keeps_void_slots 3          /* POSTS=221: slots_miscounted */
#define every_void_add_moves_limit 4      /* POSTS=221: slots_miscounted */
#define full_keeps_slots 5                /* GIVE_UPS=1: slots_miscounted */
#define limit_moves_before_ready 6        /* POSTS=221: wqe_not_written */
#define full_does_not_ring 7              /* SLOTS=112 POSTS=111: invalid end state */
#define limit_moves_without_release 8     /* POSTS=222: doorbell_out_of_order */
#define counter_before_tail 9             /* POSTS=221: slot_overwritten */
#define compare_by_size 10                /* POSTS=221: slot_overwritten */
#define last_wqe_has_two_slots 11         /* SLOTS=211 POSTS=211: invalid end state */
#define ring_before_wqe 12                /* POSTS=221: wqe_not_written */
#define no_release_before_record 13       /* POSTS=221: wqe_not_written */
#define no_release_before_doorbell 14     /* POSTS=221: invalid end state */
#define skip_predecessor_wait 15          /* POSTS=221: doorbell_out_of_order */
#define defer_without_successor 16        /* POSTS=221: invalid end state */
#define defer_without_release 17          /* POSTS=221: wqe_not_written */
#define successor_before_ready 19         /* POSTERS=4 DEPTH=4 SEGMENT=4 POSTS=1111 SLOTS=1111: doorbell_out_of_order */
#define ready_before_doorbell 20          /* POSTS=221: doorbell_out_of_order */
#define ready_without_release 21          /* POSTS=221: doorbell_out_of_order */
#define predecessor_wait_ignores_error 23 /* GIVE_UPS=1 DEPTH=4 SEGMENT=4: invalid end state */
#define limit_wait_ignores_error 24       /* GIVE_UPS=1: invalid end state */
#define slot_wait_ignores_error_word 25   /* GIVE_UPS=1: invalid end state */
#define slot_wait_ignores_error_cqe 26    /* FAILURES=1: invalid end state */
#define ticket_wait_ignores_error_word 27 /* GIVE_UPS=1: invalid end state */
#define ticket_wait_ignores_error_cqe 28  /* FAILURES=1: invalid end state */
#define ticket_wait_keeps_old_tail 29     /* POSTS=121: invalid end state */
#define error_cqe_is_completion 30        /* FAILURES=1: done_before_completion */
#define flush_is_cause 31                 /* FAILURES=1: done_before_completion */
#define error_not_sticky 32               /* FAILURES=1: error_replaced */
#define give_up_without_poison 33         /* GIVE_UPS=1: invalid end state */
#define give_up_counts_as_ready 34        /* GIVE_UPS=1 DEPTH=4 SEGMENT=4 POSTS=111: wqe_not_written */
#define BROKEN(rule) (MUTATION == rule)
#define KEPT(rule) (MUTATION != rule)

hidden byte slot_overwritten, slots_miscounted, wqe_not_written, doorbell_out_of_order, doorbell_lost,
  done_before_completion, error_replaced;
#define PROPERTY(violation, condition) violation = !(condition); assert(!violation)

#define MODULUS 32            /* of indices; in the library 2^32 */
#define COUNTERS (2 * DEPTH)  /* modulus of a CQE's counter; in the library 2^16, twice the greatest depth */
#define START (MODULUS - 3)   /* so that both wrap soon */
#define INDEX(x) ((x) & (MODULUS - 1))
#define COUNTER(x) ((x) & (COUNTERS - 1))
#define SLOT(index) ((index) & (DEPTH - 1))

/* True if index a is below b. True if `slots` from index a on fit in front of those from b on. */
#define IS_BEFORE(a, b) (INDEX((a) - (b)) >= MODULUS / 2)
#define FITS(a, slots, b) (INDEX((a) + (slots) - (b) + MODULUS / 2) <= DEPTH + MODULUS / 2)

/* QueueControl: the word, the count of ready slots, and the first error. */
byte reserved = START;
byte limit = START;
byte ready = START;
#define OK 0
#define CAUSE 1
#define FLUSH 2
#define POISON 3
byte error = OK;
byte error_counter;

/* The CQE. Before use it reads as the completion of the WQE before the first. */
byte cqe = OK;
byte cqe_counter = COUNTER(START - 1);

/* Record, doorbell, and the slots: each holds the index of the WQE that it contains as a whole. */
byte record = START;
byte doorbell = START;
bool rung = false;
#define NOTHING 63
byte slot[DEPTH] = NOTHING;
#define QUIET 64    /* added where the WQE reports no success */
#define SECOND 128  /* added where it is the second slot of a WQE */
#define WHOSE(i) (slot[SLOT(i)] & 63)
#ifdef NO_RECORD
#define END_OF_WORK doorbell
#else
#define END_OF_WORK record
#endif

/* The NIC: below `announced` it knows of work, below `executed` it has executed it, below `completed` with success. */
byte announced = START;
byte executed = START;
byte completed = START;
byte failures = FAILURES;
bool curious = CURIOUS;

/* Each poster's reservation, how far it rings, and those of its stores that are not visible yet. */
byte base[POSTERS];
byte upto[POSTERS];
byte pending[POSTERS];
#define WQE_0 1
#define WQE_1 2
#define RECORD 4
#define DOORBELL 8
#if POSTERS == 4
#define DIGIT(number, p) \
  ((p) == 0 -> number / 1000 : ((p) == 1 -> number / 100 % 10 : ((p) == 2 -> number / 10 % 10 : number % 10)))
#define NOTHING_PENDING (pending[0] + pending[1] + pending[2] + pending[3] == 0)
#else
#define DIGIT(number, p) ((p) == 0 -> number / 100 : ((p) == 1 -> number / 10 % 10 : number % 10))
#define NOTHING_PENDING (pending[0] + pending[1] + pending[2] == 0)
#endif
#define END(p) INDEX(base[p] + DIGIT(SLOTS, p))
#define STORED_WQE_0(p) (DIGIT(SLOTS, p) == 2 && KEPT(last_wqe_has_two_slots) -> base[p] + QUIET : base[p])
#define STORED_WQE_1(p) (KEPT(last_wqe_has_two_slots) -> INDEX(base[p] + 1) : INDEX(base[p] + 1) + SECOND)

byte give_ups = GIVE_UPS;

/* A bit for each poster that has added, or will not. Equal posters are numbered by their first adds: an
 * execution in another order is the same under other names. */
byte begun;
#define IS_NEXT_NUMBER ((SLOTS != 111 && SLOTS != 1111) || me == 0 || (begun & (1 << (me - 1))))

/* For the properties: START + the slots of all posts that were not refused; the first error, the NIC's if it has one. */
byte granted = START;
byte first_error = OK;
byte finished = 0;

#define BECOMES_VISIBLE(p) \
  :: d_step { pending[p] & WQE_0 -> slot[SLOT(base[p])] = STORED_WQE_0(p); pending[p] = pending[p] - WQE_0 } \
  :: d_step { pending[p] & WQE_1 -> slot[SLOT(base[p] + 1)] = STORED_WQE_1(p); pending[p] = pending[p] - WQE_1 } \
  :: d_step { pending[p] & RECORD -> record = upto[p]; pending[p] = pending[p] - RECORD } \
  :: d_step { pending[p] & DOORBELL -> \
       PROPERTY(doorbell_out_of_order, !IS_BEFORE(upto[p], doorbell)); \
       doorbell = upto[p]; rung = true; pending[p] = pending[p] - DOORBELL }

/* Makes stores visible, one at a time. */
active proctype Memory() {
end:
  do
  BECOMES_VISIBLE(0)
  BECOMES_VISIBLE(1)
  BECOMES_VISIBLE(2)
#if POSTERS == 4
  BECOMES_VISIBLE(3)
#endif
  od
}

active proctype Nic() {
  byte i;
end:
  do
  :: d_step {  /* at any time; then it may fetch at once */
       rung || (curious && END_OF_WORK != announced) ->
       rung = false;
       announced = END_OF_WORK;
       i = executed;
       do
       :: i != announced -> PROPERTY(wqe_not_written, WHOSE(i) == i); i = INDEX(i + 1)
       :: else -> break
       od;
       i = 0
     }
  :: d_step { curious -> curious = false }  /* otherwise a wait that only curiosity ends would be no deadlock */
  :: atomic {
       executed != announced ->
       PROPERTY(wqe_not_written, WHOSE(executed) == executed);
       if
       :: cqe == OK && slot[SLOT(executed)] == executed + QUIET -> skip
       :: cqe == OK && slot[SLOT(executed)] == executed -> cqe_counter = COUNTER(executed)
       :: cqe == OK && failures > 0 -> failures--; cqe = CAUSE; cqe_counter = COUNTER(executed)
       :: cqe != OK -> cqe = FLUSH; cqe_counter = COUNTER(executed)
       fi;
       executed = INDEX(executed + 1);
       if
       :: executed != announced && slot[SLOT(executed)] == executed + SECOND -> executed = INDEX(executed + 1)
       :: else
       fi;
       completed = (cqe == OK -> executed : completed)
     }
  od
}

/* While the gate is closed, `reserved` counts void slots as well. */
#define OPEN !IS_BEFORE(limit, reserved)
#define END_NOW (OPEN -> reserved : limit)
#define RELOAD seen_reserved = END_NOW
#define FORGET seen_reserved = 0; complete = 0  /* forgets stale values, so that fewer states differ */

/* Below the floor everything is complete: otherwise the limit would not have been moved that far. */
#define FLOOR(reserved_) INDEX((reserved_) - DEPTH)
#define COMPLETED_BELOW(counter, floor) INDEX((floor) + COUNTER((counter) + 1 - (floor)))
#define SEEN_COMPLETED_BELOW(counter) COMPLETED_BELOW(counter, FLOOR(seen_reserved))

#if MUTATION == compare_by_size
#define FITS_BEHIND(next, complete_) ((next) + slots - (complete_) <= DEPTH)
#else
#define FITS_BEHIND(next, complete_) FITS(next, slots, complete_)
#endif

/* What a load would find now. */
#define NOW_COMPLETED_BELOW COMPLETED_BELOW(cqe_counter, FLOOR(END_NOW))
#define ROOM_NOW (!IS_BEFORE(limit, INDEX(reserved + slots)))
#define FITS_UP_TO(limit_) (INDEX((limit_) - complete + MODULUS / 2) <= DEPTH + MODULUS / 2)
#define FREE_SLOTS_NOW (OPEN && (ROOM_NOW || (cqe == OK && FITS_BEHIND(reserved, NOW_COMPLETED_BELOW))))
#define DONE_NOW (cqe == OK && IS_BEFORE(ticket, (KEPT(ticket_wait_keeps_old_tail) -> NOW_COMPLETED_BELOW : \
                                                  SEEN_COMPLETED_BELOW(cqe_counter))))

/* Blocks until all stores of this poster are visible. */
#define RELEASE(mutation) (pending[me] == 0 || BROKEN(mutation))

#define NO_TICKET 255

inline Record(kind, counter) {
  if
  :: error == OK || (error == POISON && kind != POISON) || BROKEN(error_not_sticky) ->
       first_error = (error == OK || error == POISON -> kind : first_error);
       error = kind;
       error_counter = counter
  :: else
  fi;
  PROPERTY(error_replaced, error == first_error)
}

inline StoreWqes() {
  pending[me] = pending[me] | (slots == 2 -> WQE_0 + WQE_1 : WQE_0)
}

/* Follows a reservation in the same step, since none of it is visible to others. */
inline Begin() {
  PROPERTY(slot_overwritten, FITS(base[me], slots, completed));
  granted = INDEX(granted + slots);
  upto[me] = END(me);
  ticket = (me == 0 -> ticket : NO_TICKET);
  complete = (posts > 1 -> complete : 0);
  if
  :: KEPT(ring_before_wqe) -> StoreWqes()
  :: else
  fi
}

proctype Poster(byte me; byte posts; byte slots) {
  byte seen_reserved = START;  /* the end of the reserved slots, as last seen */
  byte seen_ready = START;     /* all slots before are ready; NOTHING: unknown */
  byte seen_cqe, seen_counter;    /* the CQE, as last seen */
  byte complete = START;       /* everything below is complete, as last seen */
  byte ticket = NO_TICKET;
  bool followed, was_ready;

reserve:
  if
  :: posts == 0 -> goto await_ticket
  :: posts > 0 && FRESH ->
       d_step { seen_ready = ready };
       d_step { RELOAD };
       d_step { seen_ready = (seen_ready == seen_reserved -> seen_ready : NOTHING) }
  :: posts > 0 && !FRESH
  fi;

add:
#if MUTATION == counter_before_tail
  atomic { seen_cqe = cqe; seen_counter = cqe_counter };
#endif
  atomic {
    IS_NEXT_NUMBER;
    begun = begun | (1 << me);
    base[me] = reserved;
    reserved = INDEX(reserved + slots);
    if
    :: IS_BEFORE(limit, base[me]) && KEPT(reserve_past_limit) && KEPT(every_void_add_moves_limit) ->
         base[me] = 0; seen_reserved = limit;
         goto await_limit
    :: IS_BEFORE(limit, base[me]) && BROKEN(every_void_add_moves_limit) -> seen_reserved = limit; goto await_ready
    :: !IS_BEFORE(limit, base[me]) && IS_BEFORE(limit, reserved) && KEPT(reserve_past_limit) ->
         seen_reserved = base[me];
         goto await_ready
    :: else ->
         if
         :: KEPT(reserve_past_limit) -> PROPERTY(slots_miscounted, base[me] == granted)
         :: else
         fi;
         seen_reserved = reserved;
         Begin();
         goto publish
    fi
  }

await_limit:
  atomic {  /* the error word in the same step: see look_for_slots */
    if
    :: OPEN -> RELOAD
    :: !(OPEN) && error != OK && KEPT(limit_wait_ignores_error) -> goto await_ticket
    :: !(OPEN) && give_ups > 0 -> give_ups--; Record(POISON, 0); goto await_ticket
    :: !(OPEN) && give_ups > 0 -> give_ups--; goto await_ticket  /* kAborted: nothing is reserved */
    fi
  };

look_for_slots:
  atomic {  /* reads the error word with the CQE: a later load tells a poster that misses an error now */
    seen_cqe = cqe;
    seen_counter = cqe_counter;
    if
    :: error != OK && KEPT(slot_wait_ignores_error_word) -> goto await_ticket
    :: else
    fi;
    if
    :: seen_cqe == OK -> complete = SEEN_COMPLETED_BELOW(seen_counter)
    :: seen_cqe != OK && KEPT(slot_wait_ignores_error_cqe) -> Record(seen_cqe, seen_counter); goto await_ticket
    :: else -> complete = FLOOR(seen_reserved)
    fi;
    seen_cqe = OK;
    seen_counter = 0;
    if
    :: FITS_BEHIND(seen_reserved, complete) -> goto add  /* where the limit has room, slots are free */
    :: else
    fi;
    FORGET;
    if
    :: FREE_SLOTS_NOW || (error != OK && KEPT(slot_wait_ignores_error_word)) ||
       (cqe != OK && KEPT(slot_wait_ignores_error_cqe)) -> goto await_limit
    :: give_ups > 0 ->  /* kFull, kTimeout or kAborted */
         give_ups--;
         PROPERTY(slots_miscounted, !(OPEN) || reserved == granted);
         goto await_ticket
    fi
  };

  /* This poster holds the gate: it moves the limit, and no other does. */
await_ready:
  atomic {
    was_ready = (seen_ready == base[me]);
    if
    :: was_ready || ready == base[me] || BROKEN(limit_moves_before_ready) -> seen_ready = base[me]
    :: else ->
         if
         :: ready == base[me] -> seen_ready = base[me]
         :: error != OK && KEPT(predecessor_wait_ignores_error) -> goto withdraw
         :: give_ups > 0 ->
              give_ups--;
              if
              :: KEPT(give_up_without_poison) -> Record(POISON, 0)
              :: else
              fi;
              goto withdraw
         fi
    fi
  };
  atomic {
#if MUTATION != counter_before_tail
    seen_cqe = cqe;
    seen_counter = cqe_counter;
#endif
    if
    :: error != OK && KEPT(slot_wait_ignores_error_word) -> goto withdraw
    :: else
    fi;
    if
    :: seen_cqe == OK -> complete = SEEN_COMPLETED_BELOW(seen_counter)
    :: seen_cqe != OK && KEPT(slot_wait_ignores_error_cqe) -> Record(seen_cqe, seen_counter); goto withdraw
    :: else -> complete = FLOOR(seen_reserved)
    fi;
    seen_cqe = OK;
    seen_counter = 0;
    if
    :: FITS_BEHIND(base[me], complete) || BROKEN(move_limit_past_free_slots) -> goto move_limit
    :: else -> upto[me] = base[me]
    fi;
    if
    :: was_ready || BROKEN(full_does_not_ring) -> goto move_limit
    :: else
    fi
  };
#ifndef NO_RECORD
  pending[me] = pending[me] | RECORD;
#endif
  atomic {
    RELEASE(no_release_before_doorbell) -> pending[me] = pending[me] | DOORBELL
  };

move_limit:
  atomic {
    RELEASE(limit_moves_without_release) ->
    if
    :: FITS_BEHIND(base[me], complete) || BROKEN(move_limit_past_free_slots) ->
         limit = INDEX(base[me] + slots + SEGMENT);
         reserved = (BROKEN(limit_keeps_void_slots) -> reserved : INDEX(base[me] + slots))
    :: else ->
         limit = INDEX(base[me] + SEGMENT);
         reserved = (BROKEN(full_keeps_slots) -> INDEX(base[me] + slots) : base[me])
    fi;
    limit = (KEPT(move_limit_past_free_slots) && !FITS_UP_TO(limit) -> INDEX(complete + DEPTH) : limit);
    if
    :: FITS_BEHIND(base[me], complete) || BROKEN(move_limit_past_free_slots) ->
         seen_reserved = reserved;
         Begin();
         PROPERTY(slots_miscounted, reserved == granted);
         goto publish
    :: else
    fi;
    PROPERTY(slots_miscounted, reserved == granted);
    base[me] = 0;
    upto[me] = (pending[me] == 0 -> 0 : upto[me]);
    FORGET;
    goto await_limit  /* it looks again before it adds */
  };

publish:
  atomic {
    if
    :: seen_ready == base[me] || BROKEN(skip_predecessor_wait) -> goto ring
    :: else
    fi;
    if
    :: reserved != END(me) || BROKEN(defer_without_successor) -> goto defer
    :: true -> followed = false
    fi
  };

await_predecessors:
  atomic {
    if
    :: KEPT(successor_before_ready) -> was_ready = (ready == base[me])
    :: else -> followed = (reserved != END(me))
    fi
  };
  atomic {
    if
    :: KEPT(successor_before_ready) -> followed = (reserved != END(me))
    :: else -> was_ready = (ready == base[me])
    fi;
    if
    :: followed -> goto defer
    :: !followed && was_ready -> goto ring
    :: else
    fi;
    if
    :: ready == base[me] || reserved != END(me) -> goto await_predecessors
    :: error != OK && KEPT(predecessor_wait_ignores_error) -> goto withdraw
    :: give_ups > 0 ->
         give_ups--;
         if
         :: KEPT(give_up_without_poison) -> Record(POISON, 0)
         :: else
         fi;
         if
         :: BROKEN(give_up_counts_as_ready) -> ready = INDEX(ready + slots)
         :: else
         fi;
         goto withdraw
    fi
  };

defer:
  atomic {  /* the library releases before the wait, which allows less */
    RELEASE(defer_without_release);
    followed = true;
    goto count
  };

ring:
#ifndef NO_RECORD
  atomic {
    RELEASE(no_release_before_record) -> pending[me] = pending[me] | RECORD
  };
#endif
  atomic {
    RELEASE(no_release_before_doorbell) -> pending[me] = pending[me] | DOORBELL;
    if
    :: BROKEN(ring_before_wqe) -> StoreWqes()
    :: BROKEN(ready_before_doorbell) -> ready = INDEX(ready + slots)
    :: else
    fi
  };
  atomic {
    RELEASE(ready_without_release);
    followed = false;
count:
    ready = (BROKEN(ready_before_doorbell) && !followed -> ready : INDEX(ready + slots));
    if
    :: me != 0 || ticket == NO_TICKET -> ticket = (BROKEN(last_wqe_has_two_slots) -> base[me] : INDEX(END(me) - 1))
    :: else
    fi;
    seen_ready = (followed -> NOTHING : END(me));
    followed = false;
    was_ready = false;
    upto[me] = (pending[me] == 0 -> 0 : upto[me]);
    base[me] = (pending[me] == 0 -> 0 : base[me]);
    posts--;
    if
    :: KEPT(ticket_wait_keeps_old_tail) -> FORGET
    :: else
    fi;
    goto reserve
  };

withdraw:
  atomic {  /* what is not published must never be executed */
    if
    :: pending[me] != 0 || upto[me] != 0 -> slot[SLOT(base[me])] = NOTHING
    :: else  /* it held the gate, and has taken nothing */
    fi;
    pending[me] = 0
  };

await_ticket:
  if
  :: ticket == NO_TICKET -> goto finish
  :: else
  fi;
  atomic {  /* word and CQE in one step: with an older word a CQE only tells of less */
    if
    :: DONE_NOW -> goto done
    :: cqe != OK && BROKEN(error_cqe_is_completion) && IS_BEFORE(ticket, NOW_COMPLETED_BELOW) -> goto done
    :: cqe != OK && KEPT(ticket_wait_ignores_error_cqe) -> seen_cqe = cqe; seen_counter = cqe_counter
    :: !DONE_NOW && error != OK && KEPT(ticket_wait_ignores_error_word) ->
         seen_cqe = error;
         seen_counter = error_counter
    :: !DONE_NOW && give_ups > 0 -> give_ups--; goto finish
    fi
  };

  /* What was posted before the cause is done. */
  atomic {
    Record(seen_cqe, seen_counter);
    seen_cqe = error;
    seen_counter = error_counter
  };
  d_step { RELOAD };
  if
  :: (seen_cqe == CAUSE || BROKEN(flush_is_cause)) &&
     IS_BEFORE(ticket, INDEX(seen_reserved - COUNTER(seen_reserved - seen_counter))) -> goto done
  :: else -> goto finish
  fi;

done:
  PROPERTY(done_before_completion, IS_BEFORE(ticket, completed));

finish:
  atomic {
    d_step {
      FORGET;
      seen_cqe = 0;
      seen_counter = 0;
      ticket = 0;
      seen_ready = 0;
      begun = begun | (1 << me);
      finished++
    };
    if
    :: finished == POSTERS && error == OK && cqe == OK && NOTHING_PENDING ->
         PROPERTY(doorbell_lost, ready == reserved && END_OF_WORK == reserved && (rung || announced == reserved))
    :: else
    fi
  }
}

init {
  atomic {
    run Poster(0, DIGIT(POSTS, 0), DIGIT(SLOTS, 0));
    run Poster(1, DIGIT(POSTS, 1), DIGIT(SLOTS, 1));
    run Poster(2, DIGIT(POSTS, 2), DIGIT(SLOTS, 2));
#if POSTERS == 4
    run Poster(3, DIGIT(POSTS, 3), DIGIT(SLOTS, 3))
#endif
  }
}
