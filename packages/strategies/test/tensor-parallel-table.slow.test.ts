import { tensorParallelTable } from './tensor-parallel-meshes.ts';

tensorParallelTable([{ replicas: 2, dp: 2, tp: 2 }]);
