import { chainSchedule } from './chain-schedule.ts';
import type { ClusterDescription } from '../cluster/cluster.ts';
import { blocksOf } from '../cost/blocks.ts';
import {
  microbatchesOf,
  partsBetweenStages,
  type RunLayout,
  type Workload,
} from '../cost/run-layout.ts';
import { placesOf, stagesOf } from '../cost/stages.ts';
import {
  hidingSeconds,
  microbatchTime,
  type MicrobatchTime,
  updateTime,
} from '../cost/step-time.ts';
import type { ModelDescription } from '../model/model-description.ts';
import type { PlaceTimes, SimulatedRun, StageTimes, Topology } from './simulated-run.ts';

/** Makes the run of a layout, with the times that `predict` takes for its parts. */
export function runOfLayout(
  model: ModelDescription,
  layout: RunLayout,
  workload: Workload,
  cluster: ClusterDescription,
  stragglers: Readonly<Record<number, number>> = {},
): SimulatedRun {
  const blocks = blocksOf(model, layout, workload);
  const microbatches = microbatchesOf(layout, workload);
  const schedule = chainSchedule(layout, microbatches);
  const stages = stagesOf(blocks, layout);
  const times = placesOf(blocks, layout).map((place, rank): PlaceTimes => {
    const hiding = hidingSeconds(microbatchTime(place, layout, cluster), cluster);
    const update = updateTime(place, layout, microbatches, cluster, hiding);
    const own = stages.flatMap((stage, index) =>
      schedule.rankOfStage[index] === rank
        ? [[index, stageTimes(microbatchTime(stage, layout, cluster))] as const]
        : [],
    );
    return {
      stages: new Map(own),
      reduceSeconds: update.dataParallel,
      updateSeconds: update.optimizer + update.offload,
    };
  });
  const [layer] = blocks.layers;
  const ranksOfPlace = layout.tensorParallel * layout.contextParallel;
  return {
    schedule,
    replicas: layout.dataParallel,
    ranksOfPlace,
    places: times,
    messageBytes: (ranksOfPlace * (layer?.outputBytes ?? 0)) / partsBetweenStages(layout),
    topology: topologyOf(cluster),
    stragglers,
  };
}

/** The seconds of a stage, without its messages to other stages, which the simulator plays. */
function stageTimes(time: MicrobatchTime): StageTimes {
  const communication = time.tensorParallel + time.contextParallel + time.expertParallel;
  return {
    forward: time.compute / 3 + communication / 2,
    inputGradient: time.compute / 3 + time.recompute + time.offload + communication / 2,
    weightGradient: time.compute / 3,
  };
}

function topologyOf({ devicesPerHost, links, hosts, efficiency }: ClusterDescription): Topology {
  const { inside, between, oversubscription } = links;
  const perSwitch = Math.min(hosts, HOSTS_PER_SWITCH);
  const reached = between.bytesPerSecond * efficiency.links;
  return {
    devicesPerHost,
    cards: 'one for each device',
    insideBytesPerSecond: inside.bytesPerSecond * efficiency.links,
    cardBytesPerSecond: reached,
    insideLatencySeconds: inside.latencySeconds,
    cardLatencySeconds: between.latencySeconds,
    ...(oversubscription === 1
      ? {}
      : {
          spine: {
            hostsPerSwitch: perSwitch,
            bytesPerSecond: (reached * devicesPerHost * perSwitch) / oversubscription,
          },
        }),
  };
}

/** Hosts under one switch of a network whose spine has less bandwidth than its hosts. */
const HOSTS_PER_SWITCH = 16;
