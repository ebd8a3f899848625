import { LineMesh, setRank } from '@shardwise/core';
import type { Backend, Mesh, MeshAxis, ProcessGroup } from '@shardwise/core/spec';
import { contractModels } from './models.ts';
import { type Message, RecordingMesh } from './recording-mesh.ts';
import type { StrategyCases, StrategyModel } from './strategy-case.ts';
import { expectedTraining, type StrategyReport, trainAlone, trainParallel } from './train.ts';

/** What all ranks of a group do, as data that can be sent to threads and processes. */
export type StrategyScenario =
  | { readonly kind: 'parallel'; readonly names: readonly string[] }
  | { readonly kind: 'alone'; readonly trainings: readonly LoneTraining[] };

/** A training on one rank, to compare its losses. */
export interface LoneTraining {
  readonly name: string;
  readonly model: string;
  readonly steps: number;
  readonly shares: number;
}

/** What a rank needs to run a scenario. */
export interface StrategyRank {
  readonly group: ProcessGroup;
  readonly device: Backend;
  /** A collective that makes meshes, such as `createMesh`. Default: it makes meshes of one axis only. */
  readonly createMesh?: (group: ProcessGroup, axes: readonly MeshAxis[]) => Promise<Mesh>;
}

/** The results of a strategy that trained a model twice from the same start. */
export interface PlayedTraining {
  readonly name: string;
  readonly model: string;
  readonly reports: readonly [StrategyReport, StrategyReport];
}

/** Plays one rank's part. The result can be posted. An error closes the group with this error, and is thrown again. */
export async function runStrategyScenario(
  rank: StrategyRank,
  scenario: StrategyScenario,
  cases: StrategyCases,
): Promise<readonly PlayedTraining[] | readonly (readonly number[])[]> {
  try {
    return scenario.kind === 'alone'
      ? await playAlone(rank, scenario.trainings, cases)
      : await playParallel(rank, scenario.names, cases);
  } catch (error) {
    rank.group.close(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }
}

async function playAlone(
  { device }: StrategyRank,
  trainings: readonly LoneTraining[],
  cases: StrategyCases,
): Promise<readonly (readonly number[])[]> {
  setRank({ device });
  const known = new Map<StrategyModel, Map<string, readonly number[]>>();
  const found: (readonly number[])[] = [];
  for (const { name, model: modelName, steps, shares } of trainings) {
    const { models = contractModels, expectedLosses } = cases[name] ?? {};
    const model = modelOf(models, modelName);
    if (expectedLosses !== undefined) {
      found.push(await expectedLosses(expectedTraining(model, steps, shares)));
      continue;
    }
    const ofModel = known.get(model) ?? new Map<string, readonly number[]>();
    known.set(model, ofModel);
    const key = `${steps} ${shares}`;
    const losses = ofModel.get(key) ?? (await trainAlone(expectedTraining(model, steps, shares)));
    ofModel.set(key, losses);
    found.push(losses);
  }
  return found;
}

async function playParallel(
  { group, device, createMesh = lineMesh }: StrategyRank,
  names: readonly string[],
  cases: StrategyCases,
): Promise<readonly PlayedTraining[]> {
  const found: PlayedTraining[] = [];
  const messages: Message[] = [];
  const recording = { take: () => messages.splice(0) };
  // A mesh is made only once for all strategies, because the number of groups is limited.
  const meshes = new Map<string, Mesh>();
  for (const name of names) {
    const each = cases[name];
    if (each === undefined) throw new RangeError(`no strategy '${name}' among the cases of a rank`);
    const axes = meshOf(each, group.size);
    if (axes === null) continue;
    const key = JSON.stringify(axes);
    const mesh =
      meshes.get(key) ??
      new RecordingMesh(await createMesh(group, axes), (message) => messages.push(message));
    meshes.set(key, mesh);
    for (const [modelName, model] of Object.entries(each.models ?? contractModels)) {
      // The second training begins with the plans of the first.
      setRank({ device, mesh });
      const play = (): Promise<StrategyReport> => trainParallel(each, model, group, recording);
      try {
        found.push({ name, model: modelName, reports: [await play(), await play()] });
      } catch (cause) {
        throw new Error(`${name} of ${modelName} on ${group.size} ranks: ${String(cause)}`, {
          cause,
        });
      }
    }
  }
  return found;
}

/** Returns the mesh on which a strategy is tested. Returns null if it is not tested with this number of ranks. */
export function meshOf(
  { mesh }: Pick<StrategyCases[string], 'mesh'>,
  size: number,
): readonly MeshAxis[] | null {
  return mesh === undefined ? [{ name: 'dp', size }] : mesh(size);
}

async function lineMesh(group: ProcessGroup, axes: readonly MeshAxis[]): Promise<Mesh> {
  const [axis] = axes;
  if (axis !== undefined && axes.length === 1) return new LineMesh(axis.name, group);
  throw new RangeError('a mesh of several axes needs `createMesh` in what a rank is given');
}

function modelOf(models: Readonly<Record<string, StrategyModel>>, name: string): StrategyModel {
  const model = models[name];
  if (model !== undefined) return model;
  throw new RangeError(`no model '${name}'`);
}
