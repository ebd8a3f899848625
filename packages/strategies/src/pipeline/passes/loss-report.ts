import type { Node } from '@shardwise/core/extend';
import type { PassSettings } from '../microbatches/pass-settings.ts';
import type { FirstFault } from './first-fault.ts';

/** Warns of losses that are not finite, and names the stage where the first bad value comes from. */
export class LossReport {
  readonly #settings: PassSettings;
  #wasFinite = true;

  constructor(settings: PassSettings) {
    this.#settings = settings;
  }

  /**
   * Reports the first stage with a bad value if the loss is not finite. It does so once, until a loss is finite again.
   * In that case it is a collective. `loss` is the same on all ranks. Shape: [].
   */
  async report({ value }: Node, lossStage: number, fault: FirstFault): Promise<void> {
    const { group, marks, place, axis } = this.#settings;
    const [loss = 0] = value?.kind === 'host' ? new Float32Array(value.bytes.slice().buffer) : [];
    const wasFinite = this.#wasFinite;
    this.#wasFinite = Number.isFinite(loss);
    if (this.#wasFinite || !wasFinite) return;
    const found = await fault.ofAll(group);
    if (group.rank !== 0) return;
    const stage = found?.stage ?? lossStage;
    const path = marks.beginningOf(stage);
    const what = found === null ? 'the loss' : `its output for microbatch ${found.microbatch}`;
    const begins = path === null ? '' : `, which begins at '${path}'`;
    console.warn(
      `shardwise: the loss of a pipeline is ${loss}: the first value that is not finite is of stage ${stage} on rank ${place.rankOfStage[stage]} of '${axis}'${begins} (${what}). Look at the parameters and inputs of this stage`,
    );
  }
}
