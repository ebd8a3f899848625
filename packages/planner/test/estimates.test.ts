import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { accelerateTable, zero2Table, zero3Table } from '@shardwise/planner';

const golden = z
  .object({
    deepspeed: z.array(
      z.object({
        elements: z.number(),
        largestLayerElements: z.number(),
        nodes: z.number(),
        ranksPerNode: z.number(),
        zero2: z.string(),
        zero3: z.string(),
      }),
    ),
    accelerate: z.array(
      z.object({
        name: z.string(),
        totalBytes: z.number(),
        largestLayerBytes: z.number(),
        text: z.string(),
      }),
    ),
  })
  .parse(JSON.parse(readFileSync(new URL('./golden/estimates.json', import.meta.url), 'utf8')));

test.each(golden.deepspeed)(
  "tables for $elements parameters on $nodes × $ranksPerNode ranks are those that DeepSpeed's estimators print",
  ({ zero2, zero3, ...options }) => {
    expect(zero2Table(options)).toBe(zero2);
    expect(zero3Table(options)).toBe(zero3);
  },
);

test.each(golden.accelerate)(
  'the table of $name is the one that `accelerate estimate-memory` prints',
  ({ text, ...options }) => {
    expect(accelerateTable(options)).toBe(text);
  },
);
