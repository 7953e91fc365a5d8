// How accrue handles each key of other libraries' configurations: transformers 5.24 and 4, PEFT
// 0.21, and llama.cpp's GGUF files. A test asks these libraries for their keys
// (python/tests/judges/test_configurations.py), so a new key is noticed.

#include "text/config_file.h"

namespace accrue {
namespace {

using enum Heed;

// The values that Python considers false.
constexpr std::string_view off = "[false, null]", null = "[null]", empty = R"([null, {}, [], ""])";

// Keys of every configuration of transformers.
constexpr KnownKey keys_of_transformers[]{
    {"model_type", read},
    {"vocab_size", read},
    {"tie_word_embeddings", read},

    // These describe the contents of a file, not the computation.
    {"_commit_hash", nothing},
    {"_name_or_path", nothing},
    {"architectures", nothing},  // the tensors show it
    {"dtype", nothing},          // the tensors show it
    {"id2label", nothing},
    {"is_llama_config", nothing},
    {"label2id", nothing},
    {"name_or_path", nothing},
    {"num_labels", nothing},
    {"problem_type", nothing},
    {"tokenizer_class", nothing},
    {"torch_dtype", nothing},
    {"transformers.js_config", nothing},
    {"transformers_version", nothing},
    {"unsloth_fixed", nothing},
    {"unsloth_version", nothing},
    // How the model is computed, and which results are returned.
    {"_attn_implementation", nothing},
    {"_attn_implementation_autoset", nothing},
    {"_flash_attn_2_enabled", nothing},
    {"attn_implementation", nothing},
    {"chunk_size_feed_forward", nothing},
    {"experts_implementation", nothing},
    {"gradient_checkpointing", nothing},
    {"output_attentions", nothing},
    {"output_hidden_states", nothing},
    {"return_dict", nothing},
    {"tf_legacy_loss", nothing},
    {"tie_last_hidden_states", nothing},
    {"torchscript", nothing},
    {"use_bfloat16", nothing},
    {"use_cache", nothing},
    // These belong to models that are not causal, or to the beginning of training.
    {"decoder_start_token_id", nothing},
    {"finetuning_task", nothing},
    {"initializer_range", nothing},
    {"is_decoder", nothing},
    {"prefix", nothing},
    {"sep_token_id", nothing},
    {"task_specific_params", nothing},
    {"tie_encoder_decoder", nothing},
    // Tokens. The tokenizer and its files decide how texts become tokens.
    {"bos_token_id", nothing},
    {"eos_token_id", nothing},
    {"pad_token_id", nothing},

    {"add_cross_attention", fixed, off},
    {"auto_map", fixed, empty},  // custom code of the model
    {"cross_attention_hidden_size", fixed, null},
    {"is_encoder_decoder", fixed, off},
    {"original_max_position_embeddings", fixed, null},
    {"per_layer_config", fixed, empty},
    {"pruned_heads", fixed, empty},
    {"quantization_config", fixed, empty}};

// Keys of generate(), in generation_config.json or, for older models, in config.json.
constexpr KnownKey keys_of_generation[]{// text/sampling.h reads them.
                                        {"do_sample", read},
                                        {"eos_token_id", read},
                                        {"repetition_penalty", read},
                                        {"temperature", read},
                                        {"top_k", read},
                                        {"top_p", read},

                                        {"_from_model_config", nothing},
                                        {"assistant_confidence_threshold", nothing},
                                        {"assistant_early_exit", nothing},
                                        {"assistant_ensemble_weight", nothing},
                                        {"assistant_lookbehind", nothing},
                                        {"bos_token_id", nothing},
                                        {"cache_config", nothing},
                                        {"cache_implementation", nothing},
                                        {"compile_config", nothing},
                                        {"continuous_batching_config", nothing},
                                        {"decoder_start_token_id", nothing},
                                        {"disable_compile", nothing},
                                        {"early_stopping", nothing},
                                        {"is_assistant", nothing},
                                        {"length_penalty", nothing},
                                        {"low_memory", nothing},
                                        {"max_cache_len", nothing},
                                        {"max_length", nothing},
                                        {"max_matching_ngram_size", nothing},
                                        {"max_new_tokens", nothing},
                                        {"num_assistant_tokens", nothing},
                                        {"num_assistant_tokens_schedule", nothing},
                                        {"output_attentions", nothing},
                                        {"output_hidden_states", nothing},
                                        {"output_logits", nothing},
                                        {"output_scores", nothing},
                                        {"pad_token_id", nothing},
                                        {"prefill_chunk_size", nothing},
                                        {"prompt_lookup_num_tokens", nothing},
                                        {"remove_invalid_values", nothing},
                                        {"renormalize_logits", nothing},
                                        {"return_dict_in_generate", nothing},
                                        {"speculation_type", nothing},
                                        {"target_lookbehind", nothing},
                                        {"transformers_version", nothing},
                                        {"use_cache", nothing},
                                        {"use_mtp", nothing},

                                        {"bad_words_ids", writing, empty},
                                        {"begin_suppress_tokens", writing, empty},
                                        {"constraints", writing, empty},
                                        {"diversity_penalty", writing, "[0, null]"},
                                        {"dola_layers", writing, null},
                                        {"encoder_no_repeat_ngram_size", writing, "[0, null]"},
                                        {"encoder_repetition_penalty", writing, "[1, null]"},
                                        {"epsilon_cutoff", writing, "[0, null]"},
                                        {"eta_cutoff", writing, "[0, null]"},
                                        {"exponential_decay_length_penalty", writing, null},
                                        {"force_words_ids", writing, empty},
                                        {"forced_bos_token_id", writing, null},
                                        {"forced_eos_token_id", writing, null},
                                        {"guidance_scale", writing, "[1, null]"},
                                        {"max_time", writing, null},
                                        {"min_length", writing, "[0, null]"},
                                        {"min_new_tokens", writing, "[0, null]"},
                                        {"min_p", writing, "[0, null]"},
                                        {"no_repeat_ngram_size", writing, "[0, null]"},
                                        {"num_beam_groups", writing, "[1, null]"},
                                        {"num_beams", writing, "[1, null]"},
                                        {"num_return_sequences", writing, "[1, null]"},
                                        {"penalty_alpha", writing, "[0, null]"},
                                        {"sequence_bias", writing, empty},
                                        {"stop_strings", writing, empty},
                                        {"suppress_tokens", writing, empty},
                                        {"token_healing", writing, off},
                                        {"top_h", writing, null},
                                        {"typical_p", writing, "[1, null]"},
                                        {"watermarking_config", writing, empty}};

constexpr KnownKey keys_of_gpt2[]{
    {"n_embd", read},
    {"n_head", read},
    {"n_inner", read},
    {"n_layer", read},
    {"n_positions", read},
    // Names from other models, which transformers also accepts.
    {"hidden_size", read},
    {"max_position_embeddings", read},
    {"num_attention_heads", read},
    {"num_hidden_layers", read},

    {"n_ctx", nothing},  // the same as n_positions
    {"n_special", nothing},
    {"predict_special_tokens", nothing},
    {"reorder_and_upcast_attn", nothing},  // the same product in another order of operations
    // The training has its own dropout settings.
    {"attn_pdrop", nothing},
    {"embd_pdrop", nothing},
    {"resid_pdrop", nothing},
    // These belong to GPT2DoubleHeadsModel.
    {"summary_activation", nothing},
    {"summary_first_dropout", nothing},
    {"summary_proj_to_labels", nothing},
    {"summary_type", nothing},
    {"summary_use_proj", nothing},

    {"activation_function", fixed, R"(["gelu_new", "gelu_pytorch_tanh"])"},
    {"layer_norm_epsilon", fixed, "[1e-5]"},
    {"scale_attn_by_inverse_layer_idx", fixed, off},
    {"scale_attn_weights", fixed, "[true]"}};

// Keys of Llama, Mistral and Qwen2.
constexpr KnownKey keys_of_llama[]{
    {"head_dim", read},
    {"hidden_size", read},
    {"intermediate_size", read},
    {"layer_types", read},
    {"max_position_embeddings", read},
    {"num_attention_heads", read},
    {"num_hidden_layers", read},
    {"num_key_value_heads", read},
    {"rms_norm_eps", read},
    {"rope_parameters", read},  // of transformers 5
    {"rope_scaling", read},     // in earlier versions, with rope_theta
    {"rope_theta", read},

    {"attention_dropout", nothing},  // the training has its own setting
    {"pretraining_tp", nothing},     // the same product in parts

    {"attention_bias", fixed, off},  // of Llama, including the output projection
    {"hidden_act", fixed, R"(["silu", "swish"])"},
    {"mlp_bias", fixed, off},
    {"partial_rotary_factor", fixed, "[1, null]"},
    {"rope_interleaved", fixed, off}};

constexpr KnownKey keys_of_llama_alone[]{{"sliding_window", fixed, null},
                                         {"use_sliding_window", fixed, off}};

constexpr KnownKey keys_of_mistral[]{{"sliding_window", fixed, null}};

constexpr KnownKey keys_of_qwen2[]{
    {"use_mrope", fixed, off},
    {"use_sliding_window", fixed, off},
    {"max_window_layers", nothing},  // unused without use_sliding_window
    {"sliding_window", nothing}};

constexpr KnownKey keys_of_rotations[]{{"factor", read},
                                       {"high_freq_factor", read},
                                       {"low_freq_factor", read},
                                       {"original_max_position_embeddings", read},
                                       {"rope_theta", read},
                                       {"rope_type", read},
                                       {"type", read},  // its old name
                                       // Only kinds of scaling that are refused read these.
                                       {"attention_factor", nothing},
                                       {"beta_fast", nothing},
                                       {"beta_slow", nothing},
                                       {"long_factor", nothing},
                                       {"mscale", nothing},
                                       {"mscale_all_dim", nothing},
                                       {"short_factor", nothing},
                                       {"truncate", nothing},

                                       {"partial_rotary_factor", fixed, "[1, null]"}};

constexpr KnownKey keys_of_lora[]{
    {"lora_alpha", read},
    {"lora_dropout", read},
    {"r", read},
    {"target_modules", read},
    {"use_rslora", read},

    {"auto_mapping", nothing},
    {"base_model_name_or_path", nothing},  // the user names the base
    {"fan_in_fan_out", nothing},           // accrue's layers know the layout of their weights
    {"inference_mode", nothing},
    {"layers_pattern", nothing},  // used with layers_to_transform
    {"megatron_core", nothing},   // used with megatron_config
    {"peft_version", nothing},
    {"qalora_group_size", nothing},  // used with use_qalora
    {"revision", nothing},
    {"runtime_config", nothing},
    // These belong to values of init_lora_weights.
    {"corda_config", nothing},
    {"eva_config", nothing},
    {"loftq_config", nothing},
    {"lora_ga_config", nothing},

    {"alora_invocation_tokens", fixed, empty},
    {"alpha_pattern", fixed, empty},
    {"arrow_config", fixed, empty},
    {"bias", fixed, R"(["none"])"},
    {"ensure_weight_tying", fixed, off},
    {"exclude_modules", fixed, empty},
    // pissa, corda, olora, loftq, mica and lora_ga change the base's weights before the training,
    // and again when the adapters are loaded. The original base with the adapters is another model.
    {"init_lora_weights", fixed, R"([true, false, null, "gaussian", "orthogonal", "eva"])"},
    {"kasa_config", fixed, empty},
    {"layer_replication", fixed, empty},
    {"layers_to_transform", fixed, empty},
    {"lora_bias", fixed, off},
    {"megatron_config", fixed, empty},
    {"modules_to_save", fixed, empty},
    {"monteclora_config", fixed, empty},
    {"peft_type", fixed, R"(["LORA"])"},
    {"rank_pattern", fixed, empty},
    {"target_parameters", fixed, empty},
    {"task_type", fixed, R"([null, "CAUSAL_LM"])"},
    {"trainable_token_indices", fixed, empty},
    {"use_bdlora", fixed, empty},
    {"use_dora", fixed, off},
    {"use_qalora", fixed, off},
    {"velora_config", fixed, empty}};

constexpr KnownKey keys_of_gguf_architectures[]{
    {"attention.head_count", read},
    {"attention.head_count_kv", read},
    {"attention.key_length", read},
    {"attention.layer_norm_rms_epsilon", read},
    {"attention.value_length", read},
    {"block_count", read},
    {"context_length", read},
    {"embedding_length", read},
    {"feed_forward_length", read},
    {"rope.dimension_count", read},
    {"rope.freq_base", read},
    {"rope.scale_linear", read},
    {"rope.scaling.factor", read},
    {"rope.scaling.type", read},
    {"vocab_size", read},

    {"pooling_type", nothing},  // for embeddings
    {"rope.scaling.finetuned", nothing},
    {"rope.scaling.original_context_length", nothing},  // used by kinds that are refused
    {"rope.scaling.yarn_attn_factor", nothing},
    {"rope.scaling.yarn_beta_fast", nothing},
    {"rope.scaling.yarn_beta_slow", nothing},
    {"rope.scaling.yarn_ext_factor", nothing},
    {"rope.scaling.yarn_log_multiplier", nothing},
    {"tensor_data_layout", nothing},  // about the file that was converted

    {"attention.causal", fixed, "[true]"},
    {"attention.sliding_window", fixed, "[0]"},
    {"expert_count", fixed, "[0]"},
    {"expert_used_count", fixed, "[0]"},
    {"rope.scaling.attn_factor", fixed, "[1]"}};

constexpr KnownKey other_keys_of_gguf[]{
    {"general.architecture", read},
    {"split.count", read},
    {"general.type", fixed, R"(["model"])"},
    // All keys with these prefixes.
    {"general.", nothing},
    {"imatrix.", nothing},
    {"quantize.", nothing},
    {"split.", nothing},
    {"tokenizer.", nothing}};  // text/gguf_tokenizer.h reads them

}  // namespace

const KnownKeys& gpt2_keys() {
  static const KnownKeys keys{{keys_of_transformers, keys_of_generation, keys_of_gpt2},
                              UnknownKeys::warned_of};
  return keys;
}

const KnownKeys& llama_keys() {
  static const KnownKeys keys{
      {keys_of_transformers, keys_of_generation, keys_of_llama, keys_of_llama_alone},
      UnknownKeys::warned_of};
  return keys;
}

const KnownKeys& mistral_keys() {
  static const KnownKeys keys{
      {keys_of_transformers, keys_of_generation, keys_of_llama, keys_of_mistral},
      UnknownKeys::warned_of};
  return keys;
}

const KnownKeys& qwen2_keys() {
  static const KnownKeys keys{
      {keys_of_transformers, keys_of_generation, keys_of_llama, keys_of_qwen2},
      UnknownKeys::warned_of};
  return keys;
}

const KnownKeys& rotary_keys() {
  static const KnownKeys keys{{keys_of_rotations}, UnknownKeys::refused_if_set};
  return keys;
}

const KnownKeys& generation_keys() {
  static const KnownKeys keys{{keys_of_generation}, UnknownKeys::warned_of};
  return keys;
}

const KnownKeys& lora_keys() {
  static const KnownKeys keys{{keys_of_lora}, UnknownKeys::refused_if_set};
  return keys;
}

const KnownKeys& gguf_architecture_keys() {
  static const KnownKeys keys{{keys_of_gguf_architectures}, UnknownKeys::refused};
  return keys;
}

const KnownKeys& gguf_other_keys() {
  static const KnownKeys keys{{other_keys_of_gguf}, UnknownKeys::warned_of};
  return keys;
}

}  // namespace accrue
