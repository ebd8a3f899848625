import type { Assembler } from '../assembler.ts';
import { at, indexed, r12, rax, rbx, rcx, rdi, rdx, type Register } from '../operands.ts';
import type { Label } from '../../label.ts';
import { crewBits, crewFields, type CrewField } from '../../products/crew-layout.ts';

/** How often a thread looks for parts before it gives up, which is some milliseconds. */
const LOOKS = 1 << 15;
/** The most parts that a thread of the pool takes in a row, so that other work of the pool has its turn. */
const MAX_PARTS = 64;
/** How often a thread looks whether others are done before it lets the system run them. */
const LOOKS_AT_OTHERS = 1 << 12;
const SYS_SCHED_YIELD = 24;

/** The address of the fields of a crew. */
const crew = rbx;
const field = (name: CrewField) => at(crew, crewFields[name]);

/** The two routines of a crew. rdi: its fields. */
export interface CrewRoutines {
  /** Takes parts until there are none, and waits for those that others have taken. */
  readonly work: Label;
  /** Waits for parts and takes them. Ends if none come for a while. */
  readonly help: Label;
}

/**
 * Writes routines by which threads share the parts of products. A word has the number of parts and the number of the next
 * one. A thread takes a part by adding 1 to it, so each part is taken once. `run` carries out the tasks of the frame at rdi.
 */
export function emitCrew(code: Assembler, run: Label): CrewRoutines {
  return { work: emitWork(code, run), help: emitHelp(code, run) };
}

function emitWork(code: Assembler, run: Label): Label {
  const start = code.entry();
  const [next, wait, others, done] = [code.label(), code.label(), code.label(), code.label()];
  begin(code);
  code.place(next);
  emitTake(code, run, wait);
  code.jump(next);
  code.place(wait);
  code.mov(r12, LOOKS_AT_OTHERS);
  code.place(others);
  code.mov(rax, field('done'));
  code.cmp(rax, field('parts'));
  code.jumpIf('equal', done);
  code.pause();
  code.sub(r12, 1);
  code.jumpIf('notEqual', others);
  code.mov(rax, SYS_SCHED_YIELD);
  code.syscall();
  code.jump(wait);
  code.place(done);
  end(code);
  return start;
}

function emitHelp(code: Assembler, run: Label): Label {
  const start = code.entry();
  const [look, none, done] = [code.label(), code.label(), code.label()];
  const taken = r12;
  begin(code);
  code.xor(taken, taken);
  code.mov(rdx, LOOKS);
  code.place(look);
  emitTake(code, run, none);
  code.add(taken, 1);
  code.cmp(taken, MAX_PARTS);
  code.jumpIf('equal', done);
  code.mov(rdx, LOOKS);
  code.jump(look);
  code.place(none);
  code.pause();
  code.sub(rdx, 1);
  code.jumpIf('notEqual', look);
  code.place(done);
  code.mov(rax, -1);
  code.lockXadd(field('helpers'), rax);
  end(code);
  return start;
}

/** Takes a part, and carries it out. Jumps to `none` if all are taken. Changes rax, rcx, rdx and rdi, but rdx only for a part. */
function emitTake(code: Assembler, run: Label, none: Label): void {
  // Threads that only look do not write.
  code.mov(rax, field('next'));
  emitSplit(code, rax, rcx);
  code.jumpIf('notLess', none);
  code.mov(rax, 1);
  code.lockXadd(field('next'), rax);
  emitSplit(code, rax, rcx);
  code.jumpIf('notLess', none);
  code.mov(rcx, field('frames'));
  code.mov(rdi, indexed(rcx, rax, 8));
  code.call(run);
  code.mov(rax, 1);
  code.lockXadd(field('done'), rax);
}

/** Compares the number of the next part, which stays in `next`, with the number of all. */
function emitSplit(code: Assembler, next: Register, all: Register): void {
  code.mov(all, next);
  code.shr(all, crewBits);
  code.and(next, 2 ** crewBits - 1);
  code.cmp(next, all);
}

function begin(code: Assembler): void {
  code.push(rbx);
  code.push(r12);
  code.mov(crew, rdi);
}

function end(code: Assembler): void {
  code.pop(r12);
  code.pop(rbx);
  code.ret();
}
