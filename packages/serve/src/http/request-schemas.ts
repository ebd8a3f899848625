import { z } from 'zod';
import type { ChatBody, CompletionBody, EmbeddingBody, ResponseBody } from './request-bodies.ts';

const tokens = z.array(z.int().nonnegative());
/** As in OpenAI's interface, a request has at most 2048 texts. */
const texts = z.union([
  z.string(),
  z.array(z.string()).min(1).max(2048),
  tokens.min(1),
  z.array(tokens).min(1).max(2048),
]);

/** Fields that say how tokens are chosen, in all interfaces that generate. */
const sampling = {
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  // These are no part of OpenAI's interface, and have vLLM's names.
  top_k: z.int().nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  repetition_penalty: z.number().positive().nullish(),
  ignore_eos: z.boolean().nullish(),
  stop_token_ids: tokens.nullish(),
  priority: z.int().nullish(),
};

const penalties = {
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  seed: z.int().nullish(),
  stop: z.union([z.string().min(1), z.array(z.string().min(1)).max(16)]).nullish(),
  n: z.int().min(1).max(128).nullish(),
  // These two have vLLM's names. There are as many beams as texts.
  use_beam_search: z.boolean().nullish(),
  length_penalty: z.number().min(-10).max(10).nullish(),
};

const stream = {
  stream: z.boolean().nullish(),
  stream_options: z.strictObject({ include_usage: z.boolean().optional() }).nullish(),
};

/** Fields that clients send and that change nothing here. */
const neutral = {
  user: z.string().nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  store: z.boolean().nullish(),
  service_tier: z.string().nullish(),
};

/** The form of an output. The second field has vLLM's name, and is no part of OpenAI's interface. */
const form = {
  response_format: z
    .discriminatedUnion('type', [
      z.strictObject({ type: z.enum(['text', 'json_object']) }),
      z.strictObject({
        type: z.literal('json_schema'),
        json_schema: z.strictObject({
          name: z.string().nullish(),
          description: z.string().nullish(),
          strict: z.boolean().nullish(),
          schema: z.unknown(),
        }),
      }),
    ])
    .nullish(),
  structured_outputs: z
    .union([
      z.strictObject({ json: z.unknown() }),
      z.strictObject({ regex: z.string().min(1).max(4096) }),
      z.strictObject({ grammar: z.string().min(1).max(16_384) }),
      z.strictObject({ choice: z.array(z.string().min(1).max(4096)).min(1).max(1024) }),
    ])
    .nullish(),
};

export const completionSchema: z.ZodType<CompletionBody> = z.strictObject({
  model: z.string(),
  prompt: texts,
  max_tokens: z.int().positive().nullish(),
  logprobs: z.int().min(0).max(20).nullish(),
  echo: z.literal(false).nullish(),
  best_of: z.literal(1).nullish(),
  suffix: z.literal('').nullish(),
  ...sampling,
  ...form,
  ...penalties,
  ...stream,
  ...neutral,
});

const textParts = z.array(
  z.strictObject({
    type: z.enum(['text', 'input_text', 'output_text']),
    text: z.string(),
    // A text of an earlier answer has these, too.
    annotations: z.array(z.unknown()).max(0).optional(),
    logprobs: z.array(z.unknown()).max(0).optional(),
  }),
);

const message = z.looseObject({
  role: z.string().min(1),
  content: z.union([z.string(), textParts]).nullish(),
});

// Templates show the model also fields that are not known here.
const functionTool = z.looseObject({
  name: z.string().regex(/^[\w.-]{1,64}$/),
  parameters: z.record(z.string(), z.unknown()).nullish(),
});

const tool = z.strictObject({ type: z.literal('function'), function: functionTool });

const choiceWords = z.enum(['auto', 'none', 'required']);

export const chatSchema: z.ZodType<ChatBody> = z.strictObject({
  model: z.string(),
  messages: z.array(message).min(1),
  max_tokens: z.int().positive().nullish(),
  max_completion_tokens: z.int().positive().nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  tools: z.array(tool).max(128).nullish(),
  tool_choice: z
    .union([
      choiceWords,
      z.strictObject({
        type: z.literal('function'),
        function: z.strictObject({ name: z.string() }),
      }),
    ])
    .nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  /** Variables of the template, as vLLM names them. */
  chat_template_kwargs: z.record(z.string(), z.unknown()).nullish(),
  ...sampling,
  ...form,
  ...penalties,
  ...stream,
  ...neutral,
});

/** Fields of the items of an earlier answer, which clients send back as they are. */
const ofItems = { id: z.string().nullish(), status: z.string().nullish() };

const inputItem = z.union([
  z.strictObject({
    type: z.literal('message').optional(),
    role: z.string().min(1),
    content: z.union([z.string(), textParts]),
    ...ofItems,
  }),
  z.strictObject({
    type: z.literal('function_call'),
    call_id: z.string().min(1),
    name: z.string().min(1),
    arguments: z.string(),
    ...ofItems,
  }),
  z.strictObject({
    type: z.literal('function_call_output'),
    call_id: z.string().min(1),
    output: z.union([z.string(), textParts]),
    ...ofItems,
  }),
]);

export const responseSchema: z.ZodType<ResponseBody> = z.strictObject({
  model: z.string(),
  input: z.union([z.string(), z.array(inputItem).min(1)]),
  instructions: z.string().nullish(),
  text: z
    .strictObject({
      format: z
        .discriminatedUnion('type', [
          z.strictObject({ type: z.enum(['text', 'json_object']) }),
          z.strictObject({
            type: z.literal('json_schema'),
            name: z.string(),
            description: z.string().nullish(),
            strict: z.boolean().nullish(),
            schema: z.unknown(),
          }),
        ])
        .nullish(),
    })
    .nullish(),
  tools: z
    .array(functionTool.extend({ type: z.literal('function') }))
    .max(128)
    .nullish(),
  tool_choice: z
    .union([choiceWords, z.strictObject({ type: z.literal('function'), name: z.string() })])
    .nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  structured_outputs: form.structured_outputs,
  max_output_tokens: z.int().positive().nullish(),
  stream: z.boolean().nullish(),
  ...sampling,
  ...neutral,
});

export const embeddingSchema: z.ZodType<EmbeddingBody> = z.strictObject({
  model: z.string(),
  input: texts,
  encoding_format: z.enum(['float', 'base64']).nullish(),
  user: z.string().nullish(),
});
