/** The most floating-point operations of products per second. */
export interface Peak {
  /** Of products of f32. */
  readonly f32: number;
  /** Of products of f16 and bf16, with sums of f32. */
  readonly half: number;
}

/** The devices whose peak is known here. */
export type PeakDevice = 'V100' | 'A100' | 'H100' | 'H200';

/** Peaks of devices: dense products, as in the data sheets of NVIDIA. f32 is without TensorFloat-32. */
export const devicePeaks: Readonly<Record<PeakDevice, Peak>> = {
  V100: { f32: 15.7e12, half: 125e12 },
  A100: { f32: 19.5e12, half: 312e12 },
  H100: { f32: 67e12, half: 989e12 },
  H200: { f32: 67e12, half: 989e12 },
};

/** The speed at which a paper trained a model, for each device. */
export interface Throughput {
  readonly tokensPerSecond: number;
  /** Where the figure is from. */
  readonly source: string;
}

const llama = 'Touvron et al. 2023 (LLaMA), tokens by GPU-hours of A100 80GB, table 15';

/** The models whose speed in a paper is known here. */
export type PaperModel = 'llama-7b' | 'llama-13b' | 'llama-33b' | 'llama-65b';

/** Speeds of papers for each device. The tokens are divided by the GPU-hours of the whole training. */
export const paperThroughputs: Readonly<Record<PaperModel, Throughput>> = {
  'llama-7b': { tokensPerSecond: 1e12 / (82_432 * 3600), source: llama },
  'llama-13b': { tokensPerSecond: 1e12 / (135_168 * 3600), source: llama },
  'llama-33b': { tokensPerSecond: 1.4e12 / (530_432 * 3600), source: llama },
  'llama-65b': { tokensPerSecond: 1.4e12 / (1_022_362 * 3600), source: llama },
};
