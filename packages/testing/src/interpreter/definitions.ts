import { contract } from './contract.ts';
import type { Definitions } from './definition.ts';
import { elementwise } from './elementwise.ts';
import { indexing } from './indexing.ts';
import { leaves } from './leaves.ts';
import { movement } from './movement.ts';
import { reduce } from './reduce.ts';

/** What every primitive op means. A primitive without a definition does not compile. */
export const definitions: Definitions = {
  ...leaves,
  ...elementwise,
  ...reduce,
  ...movement,
  ...contract,
  ...indexing,
};
