import { type CompositionTask, testCompositions } from './pipeline-composition-cases.ts';

const four = [
  { name: 'pp', size: 2 },
  { name: 'dp', size: 2 },
] as const;
const all = ['DDP', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3', 'FSDP'];

const tasks: Readonly<Record<string, CompositionTask>> = {
  'batches in two shares': { axes: four, names: all, tied: true },
  'batches in two shares, and steps ahead of the norm': {
    axes: four,
    names: all,
    tied: true,
    ahead: true,
  },
  'batches in two shares in three dimensions': {
    axes: [...four, { name: 'tp', size: 2 }],
    names: ['ZeRO-1', 'FSDP'],
    tied: true,
  },
};

const layers = [...four, { name: 'tp', size: 2 }] as const;
const ahead: Readonly<Record<string, CompositionTask>> = {
  'layers in two parts': {
    axes: [
      { name: 'pp', size: 2 },
      { name: 'tp', size: 2 },
    ],
    names: ['alone'],
    ahead: true,
  },
  'batches in two shares': { axes: four, names: ['DDP', 'ZeRO-2', 'ZeRO-3'], ahead: true },
  'three dimensions': { axes: layers, names: ['DDP', 'ZeRO-1', 'FSDP'], ahead: true },
};

testCompositions('a pipeline ahead of the norm with', ahead);

const plain: Readonly<Record<string, CompositionTask>> = {
  'batches in two shares': { axes: four, names: ['ZeRO-2', 'FSDP'] },
  'three dimensions': { axes: layers, names: ['DDP', 'ZeRO-1', 'ZeRO-3', 'FSDP'] },
};

// The full test has the other compositions.
testCompositions('a pipeline composed with', plain);
testCompositions('a head that shares the embedding of another stage, with', tasks);
