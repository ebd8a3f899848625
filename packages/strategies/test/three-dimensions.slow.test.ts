import { testCompositions } from './pipeline-composition-cases.ts';

// The picture is from Microsoft Research 2020, "DeepSpeed: Extreme-scale model training for everyone".
testCompositions('a pipeline on thirty-two ranks, of', {
  '4 stages of 4 parts of layers, twice,': {
    axes: [
      { name: 'dp', size: 2 },
      { name: 'pp', size: 4 },
      { name: 'tp', size: 4 },
    ],
    names: ['ZeRO-1'],
    cut: ['blocks.1', 'blocks.2', 'blocks.3'],
  },
});
