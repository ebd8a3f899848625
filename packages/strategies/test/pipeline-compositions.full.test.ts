import { type CompositionTask, testCompositions } from './pipeline-composition-cases.ts';

const tasks: Readonly<Record<string, CompositionTask>> = {
  'batches in two shares': {
    axes: [
      { name: 'pp', size: 2 },
      { name: 'dp', size: 2 },
    ],
    names: ['DDP', 'ZeRO-1', 'ZeRO-3'],
  },
  'batches in two shares, and steps ahead of the norm': {
    axes: [
      { name: 'pp', size: 2 },
      { name: 'dp', size: 2 },
    ],
    names: ['FSDP'],
    ahead: true,
  },
  'layers in two parts': {
    axes: [
      { name: 'pp', size: 2 },
      { name: 'tp', size: 2 },
    ],
    names: ['alone'],
  },
  'three dimensions': {
    axes: [
      { name: 'pp', size: 2 },
      { name: 'dp', size: 2 },
      { name: 'tp', size: 2 },
    ],
    names: ['ZeRO-2'],
  },
};

testCompositions('a pipeline composed with', tasks);
