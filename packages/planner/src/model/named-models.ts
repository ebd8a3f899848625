import { ConfigError } from '@shardwise/core/extend';
import { type TransformerDescription, transformer, type TransformerSizes } from './transformer.ts';

type Sizes = Omit<TransformerSizes, 'name'>;

/** GPT with learned positions. */
function gpt(hidden: number, layers: number, heads: number, more: Partial<Sizes> = {}): Sizes {
  return { hidden, layers, heads, vocabulary: 51_200, sequence: 2048, ...more };
}

/** Llama: rotations, a gated feed-forward network, no biases. */
function llama(
  hidden: number,
  layers: number,
  heads: number,
  feedForward: number,
  more: Partial<Sizes> = {},
): Sizes {
  return {
    hidden,
    layers,
    heads,
    feedForward,
    vocabulary: 32_000,
    sequence: 4096,
    learnedPositions: false,
    gated: true,
    biases: false,
    tiedEmbeddings: false,
    dropout: false,
    ...more,
  };
}

const llama3 = { keyValueHeads: 8, vocabulary: 128_256, sequence: 8192 };
const mpt = { vocabulary: 50_368 };
const nanotron = { vocabulary: 131_072 };
const tied = { ...nanotron, tiedEmbeddings: true };

/** Models by family and size. Their sources are named above each family. */
const families: Readonly<Record<string, Readonly<Record<string, Sizes>>>> = {
  // Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters", table 1, and Brown et al.
  // 2020 for the others. 22b and 1t: Korthikanti et al. 2022.
  gpt: {
    '124m': gpt(768, 12, 12, { vocabulary: 50_257, sequence: 1024 }),
    '1.7b': gpt(2304, 24, 24),
    '3.6b': gpt(3072, 30, 32),
    '7.5b': gpt(4096, 36, 32),
    '18.4b': gpt(6144, 40, 48),
    '22b': gpt(6144, 48, 64),
    '39.1b': gpt(8192, 48, 64),
    '76.1b': gpt(10_240, 60, 80),
    '145.6b': gpt(12_288, 80, 96),
    '175b': gpt(12_288, 96, 96),
    '310.1b': gpt(16_384, 96, 128),
    '530b': gpt(20_480, 105, 128),
    '1t': gpt(25_600, 128, 160),
  },
  // BigScience workshop, "BLOOM", table 3.
  bloom: { '176b': gpt(14_336, 70, 112, { vocabulary: 250_680 }) },
  // MosaicML, llm-foundry's table of throughputs.
  mpt: {
    '125m': gpt(768, 12, 12, mpt),
    '350m': gpt(1024, 24, 16, mpt),
    '760m': gpt(1536, 24, 12, mpt),
    '1b': gpt(2048, 24, 16, mpt),
    '3b': gpt(2560, 32, 20, mpt),
    '7b': gpt(4096, 32, 32, mpt),
    '13b': gpt(5120, 40, 40, mpt),
    '30b': gpt(7168, 48, 56, mpt),
    '70b': gpt(8192, 80, 64, mpt),
  },
  // Touvron et al. 2023, "Llama 2".
  llama2: {
    '7b': llama(4096, 32, 32, 11_008),
    '13b': llama(5120, 40, 40, 13_824),
    '70b': llama(8192, 80, 64, 28_672, { keyValueHeads: 8 }),
  },
  // Dubey et al. 2024, "The Llama 3 herd of models", table 3.
  llama3: {
    '8b': llama(4096, 32, 32, 14_336, llama3),
    '70b': llama(8192, 80, 64, 28_672, llama3),
    '405b': llama(16_384, 126, 128, 53_248, llama3),
  },
  // Hugging Face, "The ultra-scale playbook": the models of its measurements.
  playbook: {
    '1b': llama(2048, 16, 16, 8192, tied),
    '3b': llama(3072, 28, 24, 8192, tied),
    '8b': llama(4096, 32, 32, 14_336, nanotron),
    '80b': llama(8192, 80, 64, 28_672, nanotron),
  },
  // Jiang et al. 2024, "Mixtral of experts".
  mixtral: {
    '8x7b': llama(4096, 32, 32, 14_336, { keyValueHeads: 8, experts: { count: 8, active: 2 } }),
  },
};

/** The names of all models that `namedModel` knows, such as `gpt:175b`. */
export const modelNames: readonly string[] = Object.entries(families).flatMap(([family, sizes]) =>
  Object.keys(sizes).map((size) => `${family}:${size}`),
);

/** Describes a model by its name, such as `gpt:175b`. Throws ConfigError for an unknown name. */
export function namedModel(name: string): TransformerDescription {
  const [family = '', size = ''] = name.toLowerCase().split(':', 2);
  const known = Object.hasOwn(families, family) ? families[family] : undefined;
  const sizes = known !== undefined && Object.hasOwn(known, size) ? known[size] : undefined;
  if (sizes !== undefined) return transformer({ name: `${family}:${size}`, ...sizes });
  throw new ConfigError(
    {
      asked: `the model '${name.slice(0, 80)}'`,
      found: 'no model of this name',
      todo: `Use one of ${modelNames.join(', ')}, or a folder with a config.json`,
    },
    { model: name },
  );
}
