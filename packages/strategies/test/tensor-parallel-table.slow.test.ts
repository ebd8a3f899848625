import { tensorParallelTable } from './tensor-parallel-meshes.ts';

tensorParallelTable([
  { replicas: 1, dp: 1, tp: 1 },
  { replicas: 1, dp: 1, tp: 4 },
  { replicas: 2, dp: 2, tp: 1 },
  { replicas: 2, dp: 2, tp: 2 },
]);
