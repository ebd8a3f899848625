import { ConfigError } from '@shardwise/core/spec';
import { z } from 'zod';
import { operations } from '../../call/record.ts';
import type { AlgorithmTable } from './algorithm-table.ts';
import { algorithms } from './algorithms.ts';

const MAX_RULES = 4096;

const rule = z
  .strictObject({
    operation: z.enum(operations),
    hosts: z.enum(['one', 'several']),
    ranks: z.int().positive(),
    upToBytes: z.int().nonnegative().nullable(),
    algorithm: z.string(),
  })
  .refine(
    ({ operation, algorithm }) => algorithms[operation].some(({ name }) => name === algorithm),
    { error: 'there is no such algorithm for the operation' },
  );

const schema = z.strictObject({
  madeBy: z.string(),
  machine: z.string(),
  rules: z.array(rule).max(MAX_RULES),
});

/** Checks a table that was read from a file. Throws ConfigError for anything that is not a table. */
export function parseAlgorithmTable(value: unknown): AlgorithmTable {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new ConfigError({
    asked: 'An algorithm table',
    found: z.prettifyError(parsed.error),
    todo: 'Write it with npm run bench -- collectives --tune',
  });
}
