// The group `dist.layout`: tensors that lie on several ranks, and the ways from one layout to another. It has the names of
// torch.distributed.tensor.
export { formatLayout, type Layout } from '@shardwise/core';
export {
  type ActivationLayout,
  type ActivationSharding,
  type AxisLayout,
  type CollectiveCounts,
  collectivesOfMove,
  countCollectives,
  type DimSharding,
  distributeTensor,
  formatRedistribution,
  fromLocal,
  layoutOf,
  moveOver,
  planRedistribution,
  redistribute,
  redistributeOver,
  type RedistributionMove,
  type RedistributionPlan,
  type RedistributionStep,
  shard,
  type Sharding,
  visualizeSharding,
  type VisualizeOptions,
} from '@shardwise/strategies';
