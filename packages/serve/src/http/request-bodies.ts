/** A field that may be left out or null. */
type Maybe<T> = T | null | undefined;

/** Fields that say how tokens are chosen. Those that are no part of OpenAI's interface have vLLM's names. */
export interface SamplingFields {
  readonly temperature?: Maybe<number>;
  readonly top_p?: Maybe<number>;
  readonly top_k?: Maybe<number>;
  readonly min_p?: Maybe<number>;
  readonly repetition_penalty?: Maybe<number>;
  readonly ignore_eos?: Maybe<boolean>;
  readonly stop_token_ids?: Maybe<number[]>;
  readonly priority?: Maybe<number>;
  readonly frequency_penalty?: Maybe<number>;
  readonly presence_penalty?: Maybe<number>;
  readonly seed?: Maybe<number>;
  readonly stop?: Maybe<string | string[]>;
  readonly n?: Maybe<number>;
  readonly use_beam_search?: Maybe<boolean>;
  readonly length_penalty?: Maybe<number>;
}

/** The form that an output must have. The names are those of vLLM. */
type StructuredOutputs =
  | { readonly json: unknown }
  | { readonly regex: string }
  | { readonly grammar: string }
  | { readonly choice: string[] };

/** Fields that say which form an output must have. */
export interface FormFields {
  readonly response_format?: Maybe<
    | { readonly type: 'text' | 'json_object' }
    | { readonly type: 'json_schema'; readonly json_schema: { readonly schema: unknown } }
  >;
  readonly structured_outputs?: Maybe<StructuredOutputs>;
}

interface StreamFields {
  readonly model: string;
  readonly stream?: Maybe<boolean>;
  readonly stream_options?: Maybe<{ readonly include_usage?: boolean | undefined }>;
}

/** The body of POST /v1/completions. */
export interface CompletionBody extends SamplingFields, StreamFields, FormFields {
  readonly prompt: string | string[] | number[] | number[][];
  readonly max_tokens?: Maybe<number>;
  readonly logprobs?: Maybe<number>;
}

interface TextPart {
  readonly type: 'text' | 'input_text' | 'output_text';
  readonly text: string;
}

interface Message {
  readonly role: string;
  readonly content?: Maybe<string | TextPart[]>;
  readonly [field: string]: unknown;
}

/** A function that a model may call. */
export interface Tool {
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    /** A JSON schema. */
    readonly parameters?: Maybe<Record<string, unknown>>;
    readonly [field: string]: unknown;
  };
}

/** Fields that say what an answer may call. */
export interface ToolFields {
  readonly tools?: Maybe<Tool[]>;
  readonly tool_choice?: Maybe<
    | 'auto'
    | 'none'
    | 'required'
    | { readonly type: 'function'; readonly function: { readonly name: string } }
  >;
  readonly parallel_tool_calls?: Maybe<boolean>;
}

/** The body of POST /v1/chat/completions. */
export interface ChatBody extends SamplingFields, StreamFields, FormFields, ToolFields {
  readonly messages: Message[];
  readonly max_tokens?: Maybe<number>;
  readonly max_completion_tokens?: Maybe<number>;
  readonly logprobs?: Maybe<boolean>;
  readonly top_logprobs?: Maybe<number>;
  /** Variables of the template, as vLLM names them. */
  readonly chat_template_kwargs?: Maybe<Record<string, unknown>>;
}

/** The form of an output, as the newer interface has it. */
type TextFormat =
  | { readonly type: 'text' | 'json_object' }
  | { readonly type: 'json_schema'; readonly name: string; readonly schema: unknown };

/** A function that a model may call, as the newer interface has it. */
export interface ResponseTool {
  readonly type: 'function';
  readonly name: string;
  /** A JSON schema. */
  readonly parameters?: Maybe<Record<string, unknown>>;
  readonly [field: string]: unknown;
}

/** A part of a conversation. Fields that outputs have besides change nothing. */
export type InputItem =
  | {
      readonly type?: 'message' | undefined;
      readonly role: string;
      readonly content: string | TextPart[];
    }
  | {
      readonly type: 'function_call';
      readonly call_id: string;
      readonly name: string;
      /** JSON. */
      readonly arguments: string;
    }
  | {
      readonly type: 'function_call_output';
      readonly call_id: string;
      readonly output: string | TextPart[];
    };

/** The body of POST /v1/responses. */
export interface ResponseBody extends SamplingFields, Pick<FormFields, 'structured_outputs'> {
  readonly model: string;
  readonly input: string | InputItem[];
  readonly instructions?: Maybe<string>;
  readonly text?: Maybe<{ readonly format?: Maybe<TextFormat> }>;
  readonly tools?: Maybe<ResponseTool[]>;
  readonly tool_choice?: Maybe<
    'auto' | 'none' | 'required' | { readonly type: 'function'; readonly name: string }
  >;
  readonly parallel_tool_calls?: Maybe<boolean>;
  readonly max_output_tokens?: Maybe<number>;
  readonly stream?: Maybe<boolean>;
  readonly metadata?: Maybe<Record<string, string>>;
}

/** The body of POST /v1/embeddings. */
export interface EmbeddingBody {
  readonly model: string;
  readonly input: string | string[] | number[] | number[][];
  readonly encoding_format?: Maybe<'float' | 'base64'>;
}
