import { z } from 'zod';
import { type GeneratorState, generatorStateSchema } from '../random/generator-state.ts';
import { ConfigError } from '../spec/errors.ts';
import type { SamplerSettings } from './resumable-sampler.ts';

/** Where a data loader is, as plain data; the same on every rank of a DistributedSampler. */
export interface LoaderState {
  readonly version: 1;
  readonly epoch: number;
  /** Batches of the epoch that have been handed out. */
  readonly batchesSeen: number;
  readonly batchSize: number;
  readonly dropLast: boolean;
  readonly sampler: SamplerSettings;
  /** The sampler's stream at the start of the epoch, where it draws from one. */
  readonly generator: GeneratorState | null;
}

const schema: z.ZodType<LoaderState> = z.strictObject({
  version: z.literal(1),
  epoch: z.int().min(0),
  batchesSeen: z.int().min(0),
  batchSize: z.int().min(1),
  dropLast: z.boolean(),
  sampler: z.record(z.string().max(64), z.union([z.string().max(256), z.number(), z.boolean()])),
  generator: generatorStateSchema.nullable(),
});

/** Throws ConfigError where `value` is not a data loader's state. */
export function parseLoaderState(value: unknown): LoaderState {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = issue?.path.join('.') ?? '';
  throw new ConfigError(
    {
      asked: 'set the state of a data loader',
      found: `${path === '' ? 'the value' : path}: ${issue?.message ?? 'not a state'}`,
      todo: 'Pass what state() returned, unchanged',
    },
    { path },
    { cause: parsed.error },
  );
}

/** What two loaders must have in common for one to continue the other's epoch. */
export type LoaderSettings = Pick<LoaderState, 'batchSize' | 'dropLast' | 'sampler'>;

/** Throws ConfigError that names what differs. */
export function checkSameSettings(saved: LoaderSettings, own: LoaderSettings): void {
  const before = flatten(saved);
  const now = flatten(own);
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])];
  const differing = names.filter((name) => before[name] !== now[name]);
  if (differing.length === 0) return;
  const list = (settings: SamplerSettings): string =>
    differing.map((name) => `${name} ${settings[name] ?? 'absent'}`).join(', ');
  throw new ConfigError(
    {
      asked: 'to continue in the middle of an epoch',
      found: `the state was saved with ${list(before)}; this data loader has ${list(now)}`,
      todo: 'Use the settings of the saved run, or begin an epoch with setEpoch instead',
    },
    { saved: before, own: now },
  );
}

function flatten({ batchSize, dropLast, sampler }: LoaderSettings): SamplerSettings {
  const entries = Object.entries(sampler).map(([name, value]) => [`sampler.${name}`, value]);
  return { batchSize, dropLast, ...Object.fromEntries(entries) };
}
