import { ConfigError, type Node } from '@shardwise/core/extend';

/** Has backward() throw where it comes to an output whose gradient no stage would be given. */
export function refuseBackward(output: Node): void {
  output.requiresGrad = true;
  output.sink = {
    accumulate() {
      throw new ConfigError(
        {
          asked: 'backward() from an output of a pipeline',
          found: `one of shape [${output.shape.join(', ')}] of an evaluation; a loss that is built outside of the stages cannot reach them`,
          todo: 'Give the loss to the pipeline, and the targets to forward(): pipeline({ loss, … })',
        },
        { shape: output.shape },
      );
    },
  };
}
