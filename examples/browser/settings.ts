/** What the visitor chooses, and the page gives to its ranks. */
export interface Settings {
  readonly text: Uint8Array;
  readonly strategy: StrategyName;
  readonly size: SizeName;
  readonly steps: number;
  /** The number of updates between two checkpoints. 0 saves none. */
  readonly saveEvery: number;
}

export const strategyNames = [
  'ddp',
  'zero 1',
  'zero 2',
  'fsdp',
  'tensor parallel',
  'pipeline',
] as const;
export type StrategyName = (typeof strategyNames)[number];

export const sizes = {
  small: { layers: 4, heads: 4, channels: 64 },
  medium: { layers: 4, heads: 4, channels: 128 },
  large: { layers: 4, heads: 4, channels: 256 },
} as const;
export type SizeName = keyof typeof sizes;

export function isSize(value: unknown): value is SizeName {
  return typeof value === 'string' && Object.hasOwn(sizes, value);
}

/** The number of bytes that the model sees at once. */
export const contextLength = 64;
/** The number of windows of an update, for all ranks together. 1, 2, 3 and 4 ranks can divide them evenly. */
export const batchSize = 24;

/** Reads settings from a message. Throws TypeError for anything else. */
export function parseSettings(value: unknown): Settings {
  if (typeof value === 'object' && value !== null) {
    const { text, strategy, size, steps, saveEvery } = { ...blank, ...value };
    const name = strategyNames.find((known) => known === strategy);
    const hasCounts = isCount(steps) && isCount(saveEvery);
    if (text instanceof Uint8Array && name !== undefined && isSize(size) && hasCounts) {
      return { text, strategy: name, size, steps, saveEvery };
    }
  }
  throw new TypeError('no settings of this page');
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

const blank: { readonly [K in keyof Settings]: unknown } = {
  text: null,
  strategy: null,
  size: null,
  steps: null,
  saveEvery: null,
};

/** The text that the model wrote after `step` updates. */
export interface Sample {
  readonly step: number;
  readonly text: string;
}

export function isSample(value: unknown): value is Sample {
  return typeof value === 'object' && value !== null && 'step' in value && 'text' in value;
}
