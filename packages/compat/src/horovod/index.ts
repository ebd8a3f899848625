export {
  broadcastOptimizerState,
  broadcastParameters,
  DistributedOptimizer,
  type DistributedOptimizerOptions,
} from './horovod.ts';
