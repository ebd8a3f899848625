import { Generator } from '@shardwise/core/extend';

/** A request: how many tokens its prompt has, and how many are generated. */
export interface RequestLengths {
  readonly prompt: number;
  readonly generated: number;
}

/** Requests of one kind. */
export interface Workload {
  readonly name: 'chat' | 'short';
  readonly lengths: readonly RequestLengths[];
}

/** The model, and the means of lengths. */
export interface ServeSizes {
  readonly vocabulary: number;
  readonly context: number;
  readonly width: number;
  readonly layers: number;
  readonly heads: number;
  /** The mean lengths of chats. */
  readonly chat: RequestLengths;
  readonly short: RequestLengths;
}

/** GPT-2 with 124 million parameters. The mean lengths of chats are near those of ShareGPT. */
export const gpt2Sizes: ServeSizes = {
  vocabulary: 50257,
  context: 1024,
  width: 768,
  layers: 12,
  heads: 12,
  chat: { prompt: 220, generated: 190 },
  short: { prompt: 16, generated: 128 },
};

/** A model whose benchmark takes seconds. */
export const quickSizes: ServeSizes = {
  vocabulary: 2048,
  context: 512,
  width: 256,
  layers: 4,
  heads: 4,
  chat: { prompt: 110, generated: 95 },
  short: { prompt: 8, generated: 64 },
};

/** Lengths of chats are exponential, up to some 2 times the mean. Short requests all have the same. */
export function workloadsOf({ chat, short }: ServeSizes, count: number): readonly Workload[] {
  const generator = new Generator(1);
  const drawn = (mean: number): number => {
    const [value = 0.5] = generator.uniform(1, 0, 1);
    return Math.round(Math.min(2 * mean, Math.max(4, -Math.log(1 - value) * mean)));
  };
  const chats = Array.from({ length: count }, () => ({
    prompt: drawn(chat.prompt),
    generated: drawn(chat.generated),
  }));
  // Means are exact, so that a workload of few requests has them, too.
  const scaled = (key: keyof RequestLengths): ((each: RequestLengths) => number) => {
    const mean = chats.reduce((sum, each) => sum + each[key], 0) / count;
    return (each) => Math.max(1, Math.round((each[key] * chat[key]) / mean));
  };
  const [prompt, generated] = [scaled('prompt'), scaled('generated')];
  return [
    {
      name: 'chat',
      lengths: chats.map((each) => ({ prompt: prompt(each), generated: generated(each) })),
    },
    { name: 'short', lengths: Array.from({ length: count }, () => short) },
  ];
}

/** The tokens of prompts, none of which begins like another one. */
export function promptsOf({ lengths }: Workload, vocabulary: number): readonly number[][] {
  const generator = new Generator(2);
  return lengths.map(({ prompt }) =>
    Array.from(generator.uniform(prompt, 0, 1), (value) => Math.floor(value * vocabulary)),
  );
}
