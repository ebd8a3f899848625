import { stepCounts } from './ranks/step-counts.ts';
import { tensorParallelTable } from './tensor-parallel-meshes.ts';

const meshes = [
  { replicas: 1, dp: 1, tp: 2 },
  { replicas: 1, dp: 2, tp: 2 },
  { replicas: 2, dp: 1, tp: 2 },
];
// The slow test has all trainings with every strategy, and here each strategy has another one.
tensorParallelTable(meshes, stepCounts.few, { hasAll: false });
