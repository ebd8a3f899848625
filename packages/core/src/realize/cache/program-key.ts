import type { Program, SizeSymbol } from '../../spec/backend.ts';
import { type Interned, type Key, Words } from '../signature/words.ts';

/** The word that ends the inputs of an instruction and each part of a program. No word of a list is negative. */
const END = -1;

/**
 * The key of a program, or of a program with symbols at some sizes. Programs with equal keys can share one executable.
 * The key is made of numbers, because the garbage collector would move the text of a large program again and again.
 */
export function programKey(
  programs: readonly Program[],
  symbols: readonly SizeSymbol[],
  interned: Interned,
): Key {
  const words = new Words();
  for (const { max, seen, spacing } of symbols) words.pushList([max, seen, spacing]);
  for (const program of programs) {
    words.push(END);
    for (const { shape, dtype } of program.inputs) {
      words.push(interned.text(dtype));
      words.pushList(shape);
    }
    words.push(END);
    for (const { op, params, inputs, shape, dtype } of program.instructions) {
      words.push(interned.text(op));
      words.push(interned.data(params));
      words.push(interned.text(dtype));
      words.pushList(shape);
      for (const input of inputs) words.push(input);
      words.push(END);
    }
    for (const output of program.outputs) words.push(output);
    words.push(END);
    for (const { target, value } of program.updates) {
      words.push(target);
      words.push(value);
    }
  }
  return words.ownKey();
}
