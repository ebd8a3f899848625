import {
  full,
  type Gate,
  type Routing,
  sumOverSequence,
  type Tensor,
} from '@shardwise/core/extend';

/** Collects how the layers of a model route tokens to experts in a forward pass. */
export class RoutingLog {
  #routings: Routing[] | null = null;

  /** Returns a gate that routes as `gate`, and tells this log. */
  observed(gate: Gate): Gate {
    return {
      ...gate,
      route: (input) => {
        const routing = gate.route(input);
        this.#routings?.push(routing);
        return routing;
      },
    };
  }

  /** Returns the result of `body`, and how each layer has routed in it. */
  during<T>(body: () => T): { readonly result: T; readonly routings: readonly Routing[] } {
    const routings: Routing[] = [];
    this.#routings = routings;
    try {
      return { result: body(), routings };
    } finally {
      this.#routings = null;
    }
  }
}

/**
 * E · Σ fₑ pₑ over the experts e, where fₑ is how often a token chooses e, and pₑ the mean probability of e, both over the
 * tokens of all layers together (Fedus et al. 2021, as transformers has it for Mixtral). Padding does not count. If ranks have
 * parts of the rows, it is this rank's term of the loss of all tokens. Shape:
 * attentionMask i32 [B, T] -> [].
 */
export function loadBalancingLoss(
  routings: readonly Routing[],
  attentionMask: Tensor | undefined,
): Tensor {
  const sums = routings.map(({ experts, shares }) => {
    const [tokens = 0, count = 0] = shares.shape;
    const isCounted =
      attentionMask?.to('f32').reshape([tokens, 1]) ?? full([tokens, 1], 1, shares.dtype);
    const choices = experts.oneHot(count).to('f32').reshape([tokens, -1, count]).sum(1);
    return [choices.mul(isCounted).sum(0), shares.mul(isCounted).sum(0), isCounted.sum()] as const;
  });
  const total = (of: 0 | 1 | 2): Tensor =>
    sums.map((each) => each[of]).reduce((sum, each) => sum.add(each));
  // Of choices and tokens, those of all parts count. Each part has its own term of the sum.
  const [choices, shares, tokens] = [
    sumOverSequence(total(0)),
    total(1),
    sumOverSequence(total(2)),
  ];
  const [count = 0] = shares.shape;
  return choices.div(tokens).mul(shares.div(tokens)).sum().mul(count);
}
