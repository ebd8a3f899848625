/** A figure of another machine, as a document of this repository has it. */
export interface PublishedFigure {
  readonly what: 'product' | 'training' | 'allReduce';
  /** What computed it, and where. */
  readonly by: string;
  /** As in the document, in the order of the columns that show them; '' where there is none. */
  readonly figures: readonly string[];
  /** When it was measured. */
  readonly date: string;
  /** The document. */
  readonly source: 'bench/README.md' | 'apps/docs/pages/guides/comparison.md';
}

const bench = 'bench/README.md';
const comparison = 'apps/docs/pages/guides/comparison.md';

/** What this device is compared with. A test looks each figure up in its document. */
export const published: readonly PublishedFigure[] = [
  {
    what: 'product',
    by: 'TensorFlow.js 4.22, WebAssembly, one thread of an EPYC (Zen 4)',
    figures: ['28.9', '30.0', '30.5'],
    date: '2026-11-22',
    source: comparison,
  },
  {
    what: 'product',
    by: 'jax-js 0.1.25, WebAssembly, one thread of an EPYC (Zen 4)',
    figures: ['20.2', '27.5', '27.4'],
    date: '2026-11-22',
    source: comparison,
  },
  {
    what: 'training',
    by: 'Shardwise in Node, native code, one rank on an EPYC (Zen 4)',
    figures: ['4186', '245 ms'],
    date: '2026-11-21',
    source: bench,
  },
  {
    what: 'training',
    by: 'Shardwise in Node, native code, one rank on an EPYC (Zen 5)',
    figures: ['9646'],
    date: '2026-11-25',
    source: bench,
  },
  {
    what: 'training',
    by: 'PyTorch 2.15, one thread of an EPYC (Zen 4)',
    figures: ['3777', '271 ms'],
    date: '2026-11-21',
    source: bench,
  },
  {
    what: 'training',
    by: 'Shardwise in Node, native code, two ranks on an EPYC (Zen 4)',
    figures: ['7822'],
    date: '2026-11-21',
    source: bench,
  },
  {
    what: 'training',
    by: 'Shardwise in Node, native code, two ranks on an EPYC (Zen 5)',
    figures: ['14518'],
    date: '2026-11-25',
    source: bench,
  },
  {
    what: 'training',
    by: 'PyTorch 2.15, DDP over gloo, two ranks on an EPYC (Zen 4)',
    figures: ['6790'],
    date: '2026-11-21',
    source: bench,
  },
  {
    what: 'allReduce',
    by: 'Shardwise in Node, two ranks on two cores',
    figures: ['', '21 µs', '4 ms'],
    date: '2026-11-21',
    source: bench,
  },
];
