/** A message under way. */
export interface Flow<Tag> {
  readonly tag: Tag;
  /** The numbers of the links that it goes over. */
  readonly links: readonly number[];
  /** The bytes that are not yet sent, at the time of the last change. */
  left: number;
  rate: number;
  since: number;
  /** Grows with each change of the rate, so that ends that were foreseen before it do not count. */
  version: number;
}

/**
 * Links of a network. The messages that are on a link at the same time share its bandwidth: each gets the same part,
 * and goes as fast as the slowest of its links lets it.
 */
export class Network<Tag> {
  readonly #bytesPerSecond: readonly number[];
  readonly #flows: Set<Flow<Tag>>[];

  /** `bytesPerSecond` is the bandwidth of each link. */
  constructor(bytesPerSecond: readonly number[]) {
    this.#bytesPerSecond = bytesPerSecond;
    this.#flows = bytesPerSecond.map(() => new Set());
  }

  /** Begins a message. Returns all messages whose rate has changed, and the time at which each now ends. */
  begin(time: number, bytes: number, links: readonly number[], tag: Tag): readonly FlowEnd<Tag>[] {
    const flow: Flow<Tag> = { tag, links, left: bytes, rate: 0, since: time, version: 0 };
    for (const link of links) this.#flows[link]?.add(flow);
    return this.#change(time, flow);
  }

  /** Ends a message. Returns all messages whose rate has changed. */
  end(time: number, flow: Flow<Tag>): readonly FlowEnd<Tag>[] {
    for (const link of flow.links) this.#flows[link]?.delete(flow);
    return this.#change(time, flow).filter((each) => each.flow !== flow);
  }

  #change(time: number, cause: Flow<Tag>): readonly FlowEnd<Tag>[] {
    const touched = new Set<Flow<Tag>>([cause]);
    for (const link of cause.links) {
      for (const flow of this.#flows[link] ?? []) touched.add(flow);
    }
    const ends: FlowEnd<Tag>[] = [];
    for (const flow of touched) {
      const rate = this.#rateOf(flow);
      if (rate === flow.rate) continue;
      flow.left = Math.max(0, flow.left - flow.rate * (time - flow.since));
      flow.rate = rate;
      flow.since = time;
      flow.version++;
      ends.push({ flow, version: flow.version, time: time + flow.left / rate });
    }
    return ends;
  }

  #rateOf({ links }: Flow<Tag>): number {
    return links.reduce((least, link) => {
      const sharing = Math.max(1, this.#flows[link]?.size ?? 1);
      return Math.min(least, (this.#bytesPerSecond[link] ?? Infinity) / sharing);
    }, Infinity);
  }
}

/** When a message ends, if no other begins or ends on its links before. */
export interface FlowEnd<Tag> {
  readonly flow: Flow<Tag>;
  readonly version: number;
  readonly time: number;
}
