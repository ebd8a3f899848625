/** A figure of another machine, as `bench/README.md` has it. */
export interface PublishedFigure {
  readonly what: 'product' | 'training' | 'allReduce';
  /** What computed it, and where. */
  readonly by: string;
  /** As in the document, in the order of the columns that show them; '' where there is none. */
  readonly figures: readonly string[];
  /** When it was measured. */
  readonly date: string;
}

/** What this device is compared with. A test looks each figure up in the document. */
export const published: readonly PublishedFigure[] = [
  {
    what: 'product',
    by: 'Shardwise, WebAssembly, one thread of an EPYC (Zen 5)',
    figures: ['62', '64', '63'],
    date: '2026-11-25',
  },
  {
    what: 'product',
    by: 'jax-js 0.1.25, WebAssembly, one thread of an EPYC (Zen 5)',
    figures: ['37', '41', '39'],
    date: '2026-11-25',
  },
  {
    what: 'product',
    by: 'TensorFlow.js 4.22, WebAssembly, one thread of an EPYC (Zen 5)',
    figures: ['45', '45', '46'],
    date: '2026-11-25',
  },
  {
    what: 'training',
    by: 'Shardwise in a page of Chromium, one rank on an EPYC (Zen 5)',
    figures: ['2808'],
    date: '2026-11-25',
  },
  {
    what: 'training',
    by: 'Shardwise in a page of Chromium, two ranks on an EPYC (Zen 5)',
    figures: ['5285'],
    date: '2026-11-25',
  },
  {
    what: 'training',
    by: 'jax-js 0.1.25, WebAssembly, one thread of an EPYC (Zen 5)',
    figures: ['', '783'],
    date: '2026-11-25',
  },
  {
    what: 'training',
    by: 'TensorFlow.js 4.22, WebAssembly, one thread of an EPYC (Zen 5)',
    figures: ['', '8049'],
    date: '2026-11-25',
  },
  {
    what: 'training',
    by: 'Shardwise in Node, native code, one rank on an EPYC (Zen 5)',
    figures: ['9646'],
    date: '2026-11-25',
  },
  {
    what: 'training',
    by: 'Shardwise in Node, native code, one rank on an EPYC (Zen 4)',
    figures: ['4186', '245'],
    date: '2026-11-21',
  },
  {
    what: 'training',
    by: 'PyTorch 2.15, one thread of an EPYC (Zen 4)',
    figures: ['3777', '271'],
    date: '2026-11-21',
  },
  {
    what: 'allReduce',
    by: 'Shardwise in Node, two ranks on two cores',
    figures: ['', '21 µs', '4 ms'],
    date: '2026-11-21',
  },
];
