import * as option from '../base/option-rules.ts';
import {
  type Check,
  checkSavedData,
  exactly,
  limitedText,
  nullable,
  object,
  record,
} from '../saved-data.ts';
import { checkGeneratorState, type GeneratorState } from '../random/generator-state.ts';
import { ConfigError } from '../spec/errors.ts';
import type { SamplerSettings } from './resumable-sampler.ts';

/**
 * The position of a data loader, as plain data that JSON can store. It is the same on every rank of a
 * DistributedSampler.
 */
// This is a type and not an interface, because only a type is assignable to a type of JSON values.
export type LoaderState = {
  readonly version: 1;
  readonly epoch: number;
  /** The number of batches of the epoch that have been handed out. */
  readonly batchesSeen: number;
  readonly batchSize: number;
  /** The number of ranks that take turns in the sampler's order. */
  readonly numReplicas: number;
  readonly dropLast: boolean;
  readonly sampler: SamplerSettings;
  /** The state of the sampler's generator at the start of the epoch. Null if the sampler does not draw from one. */
  readonly generator: GeneratorState | null;
};

const setting = option.either(option.either(option.number, option.flag), limitedText(256));

const checkLoaderState: Check<LoaderState> = object<LoaderState>({
  version: exactly(1),
  epoch: option.integer(0),
  batchesSeen: option.integer(0),
  batchSize: option.integer(1),
  numReplicas: option.integer(1),
  dropLast: option.flag,
  sampler: record(setting, 64),
  generator: nullable(checkGeneratorState),
});

/** Throws ConfigError if `value` is not the state of a data loader. */
export function parseLoaderState(value: unknown): LoaderState {
  return checkSavedData(
    checkLoaderState,
    value,
    'set the state of a data loader',
    'Pass what state() returned, unchanged',
  );
}

/** The settings that two loaders must have in common for one to continue the other's epoch. */
export type LoaderSettings = Pick<
  LoaderState,
  'batchSize' | 'numReplicas' | 'dropLast' | 'sampler'
>;

/**
 * Throws ConfigError, which names the settings that differ. Another number of ranks can continue if the batches of all
 * ranks together have the same size.
 */
export function checkSameSettings(saved: LoaderSettings, own: LoaderSettings): void {
  checkSameItems(saved, own);
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

/** Throws ConfigError if the batches of all ranks together have another number of items. */
function checkSameItems(saved: LoaderSettings, own: LoaderSettings): void {
  const items = saved.batchSize * saved.numReplicas;
  if (items === own.batchSize * own.numReplicas) return;
  const text = ({ batchSize, numReplicas }: LoaderSettings): string =>
    numReplicas === 1
      ? `batchSize ${batchSize}`
      : `batchSize ${batchSize} on each of ${numReplicas} ranks`;
  const batchSize = items / own.numReplicas;
  throw new ConfigError(
    {
      asked: 'to continue in the middle of an epoch',
      found: `the state was saved with ${text(saved)}; this data loader has ${text(own)}`,
      todo: Number.isInteger(batchSize)
        ? `Use batchSize ${batchSize}, or begin an epoch with setEpoch instead`
        : `Use a number of ranks that divides ${items}, or begin an epoch with setEpoch instead`,
    },
    {
      savedBatchSize: saved.batchSize,
      savedReplicas: saved.numReplicas,
      batchSize: own.batchSize,
      numReplicas: own.numReplicas,
    },
  );
}

function flatten({ dropLast, sampler }: LoaderSettings): SamplerSettings {
  const entries = Object.entries(sampler).map(([name, value]) => [`sampler.${name}`, value]);
  return { dropLast, ...Object.fromEntries(entries) };
}
