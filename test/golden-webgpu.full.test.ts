import { describeWebGpuLosses } from './golden/webgpu-losses.ts';

await describeWebGpuLosses([
  ['mlp', 'sgd'],
  ['mlp', 'adamw'],
  ['cnn', 'sgd'],
  ['cnn', 'adamw'],
  ['gpt-tied', 'adamw'],
]);
