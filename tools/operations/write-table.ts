/**
 * Writes the operations of tensors into the tables of `docs/tensor-operations.md`. Run from the repository root:
 *
 *     node --conditions=@shardwise/source --import=$PWD/test/support/resolve-sources.ts tools/operations/write-table.ts
 *
 * `test/tensor-operations.test.ts` fails while the document differs from the classes.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withOperations } from './operations-table.ts';

const file = join(import.meta.dirname, '../../docs/tensor-operations.md');
writeFileSync(file, withOperations(readFileSync(file, 'utf8')));
