import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';

const result = z.string();

const schema = z.object({
  torch: z.string(),
  streams: z.array(
    z.object({ seed: z.string(), calls: z.array(z.object({ call: z.string(), result })) }),
  ),
  initialisation: z.array(z.object({ seed: z.string(), init: z.string(), result })),
  distributedSampler: z.array(z.object({ sampler: z.string(), result })),
  randomSampler: z.array(z.object({ sampler: z.string(), result })),
  weightedRandomSampler: z.array(z.object({ sampler: z.string(), result })),
  batchSampler: z.array(z.object({ batches: z.string(), result })),
  dataLoader: z.array(z.object({ loader: z.string(), result })),
  randomSplit: z.array(z.object({ split: z.string(), result })),
});

/** The values that tools/golden-random.py recorded. */
export const golden: z.infer<typeof schema> = schema.parse(
  JSON.parse(readFileSync(new URL('./random.json', import.meta.url), 'utf8')),
);

/** Formats groups of indices as the golden file does. */
export function indicesText(groups: Iterable<Iterable<number>>): string {
  return Array.from(groups, (group) => [...group].join(' ')).join(' | ');
}

export function sha256(values: ArrayBufferView): string {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return `sha256 ${createHash('sha256').update(bytes).digest('hex')}`;
}
