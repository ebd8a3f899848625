import { contract } from './contract.ts';
import type { Definitions } from './definition.ts';
import { elementwise } from './elementwise.ts';
import { indexing } from './indexing.ts';
import { leaves } from './leaves.ts';
import { movement } from './movement.ts';
import { reduce } from './reduce.ts';

/** The definition of every primitive op. A primitive without one is a compile error. */
export const definitions: Definitions = {
  ...leaves,
  ...elementwise,
  ...reduce,
  ...movement,
  ...contract,
  ...indexing,
};
