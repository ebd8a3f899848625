import type { Assembler } from '../assembler.ts';
import { at, indexed, type Memory, r15, rax, rcx, rsp } from '../operands.ts';
import {
  fieldOffset,
  repeatedWords,
  repeatMemory,
  TASK_BYTES,
} from '../../products/task-layout.ts';
import type { Label } from '../../label.ts';
import { taskField } from './task-fields.ts';

/**
 * Writes the routine that carries out tasks once for each entry of a table. An entry says how many bytes the right operand
 * lies behind its address. Left operands and results move on by a step. The routine changes the tasks, so only one thread
 * at a time may repeat them. The routines of tasks change neither r15 nor what lies on the stack.
 */
export function emitRepeat(code: Assembler): Label {
  const start = code.entry();
  const place = (name: Exclude<keyof typeof repeatMemory, 'byteLength'>): Memory =>
    at(rsp, repeatMemory[name]);
  const word = (name: keyof typeof repeatedWords): Memory => at(r15, 8 * repeatedWords[name]);
  code.sub(rsp, repeatMemory.byteLength);
  code.store(place('task'), r15);
  for (const name of ['table', 'flagsOffset', 'left', 'result'] as const) {
    code.mov(rax, taskField('repeat', name));
    code.store(place(name), rax);
  }
  code.xor(rax, rax);
  code.store(place('nothing'), rax);

  const [nextEntry, nextTask] = [code.label(), code.label()];
  code.place(nextEntry);
  code.mov(rax, place('table'));
  code.mov(rax, at(rax));
  code.add(rax, taskField('repeat', 'right'));
  code.store(place('right'), rax);
  code.mov(r15, taskField('repeat', 'tasks'));

  code.place(nextTask);
  code.mov(rax, word('moved'));
  code.mov(rax, indexed(rsp, rax));
  code.add(rax, word('base'));
  code.mov(rcx, word('field'));
  code.store(indexed(r15, rcx), rax);
  // A task that packs has no such fields, and does not read these words.
  code.mov(rax, word('resultBase'));
  code.add(rax, place('result'));
  code.store(at(r15, fieldOffset('multiply', 'resultOffset')), rax);
  code.mov(rcx, place('flagsOffset'));
  code.mov(rax, indexed(r15, rcx));
  code.store(at(r15, fieldOffset('multiply', 'flags')), rax);
  code.mov(rax, at(r15));
  code.call(rax);
  code.add(r15, TASK_BYTES);
  code.mov(rax, place('task'));
  code.cmp(r15, at(rax, fieldOffset('repeat', 'tasksEnd')));
  code.jumpIf('notEqual', nextTask);

  code.mov(r15, place('task'));
  for (const [name, step] of [
    ['left', 'leftStep'],
    ['result', 'resultStep'],
  ] as const) {
    code.mov(rax, place(name));
    code.add(rax, taskField('repeat', step));
    code.store(place(name), rax);
  }
  code.mov(rax, 8 * repeatedWords.otherFlags);
  code.store(place('flagsOffset'), rax);
  code.mov(rax, place('table'));
  code.add(rax, 8);
  code.store(place('table'), rax);
  code.cmp(rax, taskField('repeat', 'tableEnd'));
  code.jumpIf('notEqual', nextEntry);
  code.add(rsp, repeatMemory.byteLength);
  code.ret();
  return start;
}
