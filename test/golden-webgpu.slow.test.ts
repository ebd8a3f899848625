import { describeWebGpuLosses } from './golden/webgpu-losses.ts';

await describeWebGpuLosses([
  ['gpt', 'sgd'],
  ['gpt', 'adamw'],
  ['gpt-tied', 'sgd'],
]);
