import type { Parameter } from '@shardwise/core/extend';
import { LayerPlacement } from './layer-placement.ts';
import { StandInPlacement } from './stand-in-placement.ts';

/**
 * Returns what a layer computes with in which each rank computes a part: this rank's part of a parameter, or the parameter
 * itself if the ranks of the layer do not share it out.
 */
export function inLayer<P extends Parameter | null>(parameter: P): P | Parameter {
  const placement = parameter?.placement ?? null;
  const isPlaced = placement instanceof LayerPlacement || placement instanceof StandInPlacement;
  return (isPlaced ? placement.inLayer : null) ?? parameter;
}
