/** A figure of another machine from `bench/README.md`. */
export interface PublishedFigure {
  readonly what: 'product' | 'training' | 'allReduce';
  /** The library and the machine. */
  readonly by: string;
  /** The figures as in the document, in the order of the columns that show them. '' if there is none. */
  readonly figures: readonly string[];
  /** The date of the measurement. */
  readonly date: string;
}

/** The figures with which this device is compared. A test looks each of them up in the document. */
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
    what: 'product',
    by: 'Shardwise, WebGPU in Node, an H100',
    figures: ['1342', '7670', '21262'],
    date: '2026-11-27',
  },
  {
    what: 'product',
    by: 'jax-js 0.1.25, WebGPU in Node, an H100',
    figures: ['47', '335', '2822'],
    date: '2026-11-27',
  },
  {
    what: 'product',
    by: 'TensorFlow.js 4.22, WebGPU in Node, an H100',
    figures: ['746', '4881', '12558'],
    date: '2026-11-27',
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
    by: 'Shardwise, WebGPU in Node, an H100',
    figures: ['134843', '7.6'],
    date: '2026-11-27',
  },
  {
    what: 'training',
    by: 'jax-js 0.1.25, WebGPU in Node, an H100',
    figures: ['', '126.6'],
    date: '2026-11-27',
  },
  {
    what: 'training',
    by: 'TensorFlow.js 4.22, WebGPU in Node, an H100',
    figures: ['', '765.3'],
    date: '2026-11-27',
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
