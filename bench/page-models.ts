import { type Workload, workload } from './workload.ts';

/** A model that every contestant of `page` trains, and its data. */
export type PageModel = { readonly name: string } & (
  | { readonly kind: 'mlp'; readonly widths: readonly number[]; readonly batch: number }
  | {
      readonly kind: 'gpt';
      readonly layers: number;
      readonly channels: number;
      readonly heads: number;
      readonly context: number;
      readonly vocabulary: number;
      readonly batch: number;
      /** The bytes, and the bytes that follow them. */
      readonly tokens: readonly (readonly number[])[];
    }
);

function gpt(name: string, channels: number, of: Partial<Workload> = {}): PageModel {
  const { layers, heads, context, vocabulary, batch } = { ...workload, ...of };
  const tokens = [0, 1].map((offset) =>
    Array.from({ length: batch * context }, (_, index) => {
      const row = Math.floor(index / context);
      return (row * 31 + ((index % context) + offset) * (3 + (row % 5))) % vocabulary;
    }),
  );
  return { kind: 'gpt', name, layers, channels, heads, context, vocabulary, batch, tokens };
}

export const pageModels: readonly PageModel[] = [
  { kind: 'mlp', name: 'MLP 256-512-512-10, batch 64', widths: [256, 512, 512, 10], batch: 64 },
  gpt('GPT 0.9 M, 8 × 128 tokens', 128),
  gpt('GPT 3.3 M, 8 × 128 tokens', 256),
];

/** The models of `webgpu`. The last one is large enough to keep a fast device busy. */
export const gpuModels: readonly PageModel[] = [
  ...pageModels,
  gpt('GPT 26 M, 8 × 512 tokens', 512, { layers: 8, heads: 8, context: 512 }),
];
